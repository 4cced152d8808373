"""``python -m kunport.validation.invariance.engine``: one engine that answers the same requests in several ways.

The job: what `kunport.validation.engine` is told, ``asks`` (names of `ASKS`, in order), ``answers`` (a folder with the
answers to keep, for ``prefill``) and ``provider`` (whose calls are counted, "" for none). The answers of an ask lie in
``OUTPUT/ASK``; the facts of its stage are what proves that the engine did what the cell is about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kunport.validation.comparison.recordings import Observed
from kunport.validation.processes.child import Channel

if TYPE_CHECKING:
    from vllm import LLM

Job = dict[str, Any]


def main() -> None:
    channel = Channel()
    job = channel.receive()
    with channel.stage("import"):
        from kunport.validation.engine import start
    with channel.stage("load") as facts:
        llm = start.engine(job)
        facts["groups"] = len(llm.llm_engine.engine_core.engine_core.scheduler.kv_cache_config.kv_cache_groups)
    for ask in job["asks"]:
        with channel.stage(ask) as facts:
            answers, cached = ASKS[ask](llm, job)
            folder = Path(job["output"]) / ask
            folder.mkdir()
            for request, answer in enumerate(answers):
                answer.save(folder, 0, request)
            facts |= {"cached_tokens": cached, "preemptions": _preemptions(llm)}
            facts["provider_calls"] = _calls(job["provider"]) if job["provider"] else 0
    channel.done()


def _together(llm: LLM, job: Job) -> tuple[list[Observed], int]:
    return _observe(llm, job, job["prompts"])


def _alone(llm: LLM, job: Job) -> tuple[list[Observed], int]:
    return [_observe(llm, job, [prompt])[0][0] for prompt in job["prompts"]], 0


def _reversed(llm: LLM, job: Job) -> tuple[list[Observed], int]:
    answers, cached = _observe(llm, job, job["prompts"][::-1])
    return answers[::-1], cached


def _prefill(llm: LLM, job: Job) -> tuple[list[Observed], int]:
    """Prompts that go on with the answers to keep but for their last token: those were decoded one by one."""
    kept = [Observed.load(Path(job["answers"]), 0, request) for request in range(len(job["prompts"]))]
    prompts = [[*prompt, *map(int, each.tokens[:-1])] for prompt, each in zip(job["prompts"], kept, strict=True)]
    answers, cached = _observe(llm, job | {"tokens": 1}, prompts)
    return [_continued(answer, len(each.prompt)) for answer, each in zip(answers, kept, strict=True)], cached


def _continued(answer: Observed, known: int) -> Observed:
    """The rows of a prompt after the ``known`` first as if they had been decoded, their most likely tokens chosen."""
    columns = min(answer.prompt_ids.shape[1], answer.step_ids.shape[1])  # of both, the likeliest tokens are there
    ids = np.concatenate([answer.prompt_ids[known:, :columns], answer.step_ids[:1, :columns]])
    values = np.concatenate([answer.prompt[known:, :columns], answer.steps[:1, :columns]])
    tokens = np.take_along_axis(ids, values.argmax(axis=1)[:, None], axis=1)[:, 0]
    return replace(
        answer,
        prompt_ids=answer.prompt_ids[:known],
        prompt=answer.prompt[:known],
        step_ids=ids,
        steps=values,
        tokens=tokens,
        repeated=tokens,
    )


def _again(llm: LLM, job: Job) -> tuple[list[Observed], int]:
    """A second time, without log-probabilities of the prompts: for those vLLM would compute all of a prompt again."""
    _observe(llm, job, job["prompts"])
    return _observe(llm, job, job["prompts"], of_prompts=False)


ASKS: dict[str, Callable[[LLM, Job], tuple[list[Observed], int]]] = {
    "together": _together,
    "alone": _alone,
    "reversed": _reversed,
    "prefill": _prefill,
    "again": _again,
}


def _observe(
    llm: LLM, job: Job, prompts: Sequence[Sequence[int]], *, of_prompts: bool = True
) -> tuple[list[Observed], int]:
    """The answers, and how many tokens of the prompts came from the prefix cache."""
    from kunport.validation.engine.run import generate, observed

    outputs = generate(llm, prompts, job["tokens"], job["top"], of_prompts=of_prompts)
    answers = [observed(output, list(output.outputs[0].token_ids)) for output in outputs]
    return answers, sum(output.num_cached_tokens or 0 for output in outputs)


def _preemptions(llm: LLM) -> int:
    if not llm.llm_engine.log_stats:
        return 0
    return sum(int(metric.value) for metric in llm.get_metrics() if metric.name == "vllm:num_preemptions")


def _calls(provider: str) -> int:
    """How many calls of operators a provider answered in this process."""
    from kunport_runtime.operators.accounting import ledger

    return sum(record.count for record in ledger.records() if record.provider == provider)


if __name__ == "__main__":
    main()
