"""Serves a checkpoint in this process, and writes what came of it: ``serving_job.py CHECKPOINT ANSWERS``."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

TOKENS = 5
SAMPLING = {
    "greedy": {"temperature": 0.0},
    "seeded": {"temperature": 0.9, "top_k": 30, "top_p": 0.95, "seed": 5},
}


def prompts(vocabulary: int) -> list[list[int]]:
    """Shared beginnings, one prompt that is read in pieces, and more short ones than the vendor decodes at once."""
    import torch

    random = torch.Generator().manual_seed(0)

    def draw(count: int) -> list[int]:
        return torch.randint(0, vocabulary, (count,), generator=random).tolist()

    common = draw(40)
    return [common + draw(5), common + draw(30), draw(33), draw(90), *(draw(1 + index % 7) for index in range(30))]


def main() -> None:
    from vllm import LLM, SamplingParams
    from vllm.platforms import current_platform

    checkpoint, answers = sys.argv[1:]
    llm = LLM(
        model=checkpoint,
        skip_tokenizer_init=True,
        dtype="float32",
        max_model_len=128,
        max_num_seqs=48,
        max_num_batched_tokens=64,
        block_size=16,
        kv_cache_memory_bytes=32 << 20,
    )
    vocabulary = llm.llm_engine.vllm_config.model_config.get_vocab_size()
    requests = [{"prompt_token_ids": prompt} for prompt in prompts(vocabulary)]
    found: dict[str, Any] = {"device": current_platform.get_device_name()}
    for name, options in SAMPLING.items():
        sampling = SamplingParams(max_tokens=TOKENS, ignore_eos=True, detokenize=False, **options)
        outputs = llm.generate(requests, sampling, use_tqdm=False)
        found[name] = [list(output.outputs[0].token_ids) for output in outputs]
    counts: Counter[tuple[str, str]] = Counter()
    for record in llm.collective_rpc("kunport_operators")[0]:
        counts[record["operator"], record["provider"]] += record["count"]
    found["ran"] = [[*pair, count] for pair, count in counts.items()]
    worker = llm.llm_engine.engine_core.engine_core.model_executor.driver_worker.worker
    found["model"] = type(worker.model_runner.model).__module__
    Path(answers).write_text(json.dumps(found))


main()
