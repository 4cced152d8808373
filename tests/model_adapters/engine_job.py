"""Runs requests in vLLM as any user would, in its own process: ``engine_job.py CHECKPOINT PROMPTS RANKS ANSWER``.

Writes to the file ANSWER, as JSON: the classes that ran, and each request's tokens and its prompt's log-probabilities.
"""

import json
import sys
from pathlib import Path

from kunport_model_adapters import probe


def main() -> None:
    from vllm import LLM, SamplingParams

    checkpoint, prompts, ranks, answer = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    llm = LLM(
        checkpoint,
        tensor_parallel_size=ranks,
        worker_extension_cls=probe.EXTENSION,
        kv_cache_memory_bytes=64 << 20,
        max_num_seqs=4,
        dtype="float32",
        enforce_eager=True,
    )
    sampling = SamplingParams(temperature=0, max_tokens=4, prompt_logprobs=0, detokenize=False, ignore_eos=True)
    outputs = llm.generate([{"prompt_token_ids": prompt} for prompt in prompts], sampling, use_tqdm=False)
    scores = [
        [entry[token].logprob for token, entry in zip(prompt[1:], output.prompt_logprobs[1:], strict=True)]
        for prompt, output in zip(prompts, outputs, strict=True)
    ]
    ran = [[kind.name, kind.file] for kind in probe.ran_classes(llm)]
    tokens = [list(output.outputs[0].token_ids) for output in outputs]
    answer.write_text(json.dumps({"ran": ran, "tokens": tokens, "scores": scores}))


if __name__ == "__main__":  # workers import this file again
    main()
