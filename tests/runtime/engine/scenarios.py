"""What `test_serving` runs: engines on kunport's platform, each in a fork of a process that has imported vLLM once.

``python scenarios.py CHECKPOINT ANSWERS NAME ...`` writes ``ANSWERS/NAME.json`` for each scenario.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

TOKENS = 20
CONTEXT = 128


def prompts(vocabulary: int) -> list[list[int]]:
    """Some with a common beginning, one shorter than a page, and one longer than what a step may read."""
    import torch

    random = torch.Generator().manual_seed(0)

    def draw(count: int) -> list[int]:
        return torch.randint(0, vocabulary, (count,), generator=random).tolist()

    common = draw(40)
    return [common + draw(5), common + draw(30), draw(3), draw(33), draw(64), draw(90)]


def engine(checkpoint: str, **options: Any) -> Any:
    from vllm import LLM

    settings = {
        "skip_tokenizer_init": True,
        "dtype": "float32",
        "max_model_len": CONTEXT,
        "max_num_seqs": 8,
        "block_size": 16,
        "kv_cache_memory_bytes": 32 << 20,
        "disable_log_stats": False,
    }
    return LLM(model=checkpoint, **settings | options)


def answers(llm: Any, **sampling: Any) -> list[dict[str, Any]]:
    """Tokens and their log-probabilities."""
    from vllm import SamplingParams

    vocabulary = llm.llm_engine.vllm_config.model_config.get_vocab_size()
    parameters = SamplingParams(max_tokens=TOKENS, ignore_eos=True, detokenize=False, logprobs=0, **sampling)
    outputs = llm.generate([{"prompt_token_ids": each} for each in prompts(vocabulary)], parameters, use_tqdm=False)
    found = []
    for output in outputs:
        tokens = list(output.outputs[0].token_ids)
        logprobs = [step[token].logprob for token, step in zip(tokens, output.outputs[0].logprobs, strict=True)]
        found.append({"tokens": tokens, "logprobs": logprobs, "cached": output.num_cached_tokens})
    return found


GREEDY = {"temperature": 0.0}
SEEDED = {"temperature": 0.9, "top_k": 30, "top_p": 0.95, "seed": 5}


def reference(checkpoint: str) -> Any:
    """The model of Transformers itself, greedy."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
    found = []
    for prompt in prompts(model.config.vocab_size):
        ids, logprobs = list(prompt), []
        for _ in range(TOKENS):
            with torch.no_grad():
                last = model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
            ids.append(int(last.argmax()))
            logprobs.append(float(last.max()))
        found.append({"tokens": ids[len(prompt) :], "logprobs": logprobs})
    return found


def plain(checkpoint: str) -> Any:
    """Nothing runs short, nothing is shared; and what ran where."""
    llm = engine(checkpoint, enable_prefix_caching=False)
    from kunport_runtime.operators.accounting import demand_no_fallback
    from vllm.platforms import current_platform

    with demand_no_fallback():
        greedy = answers(llm, **GREEDY)
    return {
        "platform": type(current_platform).__module__,
        "greedy": greedy,
        "seeded": answers(llm, **SEEDED),
        "operators": llm.collective_rpc("kunport_operators")[0],
    }


def pressed(checkpoint: str) -> Any:
    """Prefixes are shared, prompts read in pieces, and requests preempted for want of cache."""
    llm = engine(checkpoint, max_num_batched_tokens=32, kv_cache_memory_bytes=12 * 65536)
    found = {"greedy": answers(llm, **GREEDY), "seeded": answers(llm, **SEEDED), "again": answers(llm, **GREEDY)}
    preempted = [metric.value for metric in llm.get_metrics() if metric.name == "vllm:num_preemptions"]
    return found | {"preemptions": sum(preempted)}


def asleep(checkpoint: str) -> Any:
    """The accounts of memory, before, during and after a sleep."""
    llm = engine(checkpoint, enable_sleep_mode=True)
    model = llm.llm_engine.engine_core.engine_core.model_executor.driver_worker.worker.model_runner.model
    tensors = [*model.parameters(), *model.buffers()]
    held = sum({each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in tensors}.values())
    before = llm.collective_rpc("kunport_memory")[0]
    llm.sleep(level=1)
    during = llm.collective_rpc("kunport_memory")[0]
    llm.wake_up()
    return {"model": held, "before": before, "during": during, "greedy": answers(llm, **GREEDY)}


def poor(checkpoint: str) -> Any:
    """The error where the budget is too small."""
    os.environ["KUNPORT_MEMORY_BUDGET"] = "1MiB"
    try:
        engine(checkpoint)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"error": ""}


def parallel(checkpoint: str) -> Any:
    """Two ranks, a process each."""
    llm = engine(checkpoint, enable_prefix_caching=False, tensor_parallel_size=2)
    return {"greedy": answers(llm, **GREEDY), "seeded": answers(llm, **SEEDED)}


def layers(checkpoint: str) -> Any:
    """How far each layer of ours is from vLLM's plain torch, relative to its largest number."""
    import torch
    from kunport_runtime.engine.layers.positions import PLAIN, Rotation
    from kunport_runtime.engine.layers.registration import register_layers
    from vllm.config import VllmConfig, set_current_vllm_config
    from vllm.model_executor.layers import activation, layernorm
    from vllm.model_executor.layers.rotary_embedding import get_rope

    torch.manual_seed(0)
    register_layers()
    found: dict[str, float] = {}

    def compare(name: str, layer: Any, *arguments: Any) -> None:
        with torch.no_grad():
            ours = layer.forward_oot(*[each.clone() for each in arguments])
            theirs = layer.forward_native(*[each.clone() for each in arguments])
        assert type(layer).__module__.startswith("kunport_runtime"), name
        pairs = zip(ours, theirs, strict=True) if isinstance(ours, tuple) else [(ours, theirs)]
        found[name] = max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)

    with set_current_vllm_config(VllmConfig()):
        x, residual = torch.randn(7, 96), torch.randn(7, 96)
        for kind in (layernorm.RMSNorm, layernorm.GemmaRMSNorm):
            layer = kind(96)
            torch.nn.init.normal_(layer.weight)
            compare(kind.__name__, layer, x)
            compare(f"{kind.__name__} with a residual", layer, x, residual)
            compare(f"{kind.__name__} of heads", layer, torch.randn(5, 3, 96))
        compare("LayerNorm", layernorm.LayerNorm(96), x)
        compare("SiluAndMul", activation.SiluAndMul(), x)
        compare("GeluAndMul", activation.GeluAndMul(), x)
        compare("GeluAndMul tanh", activation.GeluAndMul("tanh"), x)
        compare("SiluAndMulWithClamp", activation.SiluAndMulWithClamp(0.5, 1.7, 1.0), x)
        compare("SwigluOAIAndMul", activation.SwigluOAIAndMul(), x)
        scalings = ("default", "linear", "dynamic", "llama3", "yarn")
        for scaling in scalings:
            parameters = {
                "rope_type": scaling,
                "rope_theta": 10000.0,
                "factor": 2.0,
                "original_max_position_embeddings": 64,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
            }
            for neox in (True, False):
                rope = get_rope(32, 128, is_neox_style=neox, rope_parameters=parameters)
                assert isinstance(rope, Rotation)
                compare(f"rope {scaling} {neox}", rope, torch.arange(9), torch.randn(9, 4 * 32), torch.randn(9, 64))
    return {"errors": found, "rotations": len(PLAIN)}


def main() -> None:
    checkpoint, folder, *names = sys.argv[1:]
    import transformers.modeling_utils  # noqa: F401
    import vllm.entrypoints.llm  # noqa: F401

    for name in names:
        if not (child := os.fork()):
            try:
                Path(folder, f"{name}.json").write_text(json.dumps(globals()[name](checkpoint)))
            except BaseException:
                traceback.print_exc()
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
