"""Runs requests in vLLM as any user would, each job in a fork of this process, which has imported vLLM once.

``engine_job.py PROMPTS JOBS``, both JSON. A job has ``checkpoint``, ``ranks``, ``environment`` and ``answer``, a file
that gets the classes that ran, and each request's tokens and its prompt's log-probabilities; ``answer`` with the suffix
``.log`` gets what was printed. The exit statuses of all jobs are printed, as a list.
"""

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from kunport_model_adapters import probe


def answer(prompts: list[list[int]], checkpoint: str, ranks: int) -> dict[str, Any]:
    from vllm import LLM, SamplingParams

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
    return {"ran": ran, "tokens": [list(output.outputs[0].token_ids) for output in outputs], "scores": scores}


def run(prompts: list[list[int]], job: dict[str, Any]) -> None:
    """The job, in a process of its own; ends the process."""
    status = 1
    try:
        with Path(job["answer"]).with_suffix(".log").open("wb") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        os.environ |= job["environment"]
        found = answer(prompts, job["checkpoint"], job["ranks"])
        Path(job["answer"]).write_text(json.dumps(found))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    import transformers.modeling_utils  # noqa: F401
    import vllm.entrypoints.llm  # noqa: F401

    prompts, jobs = json.loads(sys.argv[1]), json.loads(sys.argv[2])
    statuses = []
    for job in jobs:
        if not (child := os.fork()):
            run(prompts, job)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(json.dumps(statuses))


if __name__ == "__main__":  # workers import this file again
    main()
