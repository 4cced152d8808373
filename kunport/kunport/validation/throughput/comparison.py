"""The two sides, turn by turn."""

from __future__ import annotations

import statistics
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kunport.errors import KunportError
from kunport.validation.adapter import choose_adapter
from kunport.validation.checkpoint import read_checkpoint
from kunport.validation.processes.environment import engine_environment
from kunport.validation.processes.supervisor import OnStage, Supervised
from kunport.validation.prompts import random_prompts, special_tokens
from kunport.validation.report import RanClass

_STAGE_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Side:
    """One side's repetitions, in order.

    Attributes:
        ran: the class that really ran.
        tokens_per_second: generated tokens by the clock.
        tokens_per_cpu_second: by the processor time that the process took, which other users of the machine hardly
            disturb.
    """

    ran: RanClass
    tokens_per_second: list[float]
    tokens_per_cpu_second: list[float]


@dataclass(frozen=True, slots=True)
class Throughput:
    """Adapter against vLLM's own class: ``requests`` at once, of ``prompt_tokens``, continued by ``tokens``.

    Attributes:
        ratios: adapter over native by the clock, for each pair of neighbours.
        cpu_ratios: the same by processor time.
    """

    requests: int
    prompt_tokens: int
    tokens: int
    adapter: Side
    native: Side

    @property
    def ratios(self) -> list[float]:
        return _ratios(self.adapter.tokens_per_second, self.native.tokens_per_second)

    @property
    def cpu_ratios(self) -> list[float]:
        return _ratios(self.adapter.tokens_per_cpu_second, self.native.tokens_per_cpu_second)

    @property
    def ratio(self) -> float:
        """The median of `ratios`."""
        return statistics.median(self.ratios)

    @property
    def cpu_ratio(self) -> float:
        """The median of `cpu_ratios`."""
        return statistics.median(self.cpu_ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """The lowest and the highest of `ratios`."""
        return min(self.ratios), max(self.ratios)


def _ratios(ours: list[float], theirs: list[float]) -> list[float]:
    return [mine / other for mine, other in zip(ours, theirs, strict=True)]


def compare_throughput(
    adapter: Path,
    checkpoint: Path,
    *,
    requests: int = 32,
    prompt_tokens: int = 16,
    tokens: int = 64,
    rounds: int = 2,
    repetitions: int = 4,
    threads: int = 1,
    seed: int = 0,
    on_stage: OnStage | None = None,
) -> Throughput:
    """Time the adapter and vLLM's own class on the same requests, all of a repetition's running at once.

    One thread each by default: on a machine that others use, threads that wait for each other measure the others. Where
    a process's memory comes to lie decides a few percent for as long as it lives, so every round starts both engines
    anew, the other one first.

    Raises:
        KunportError: the input is wrong, or one of the engines did not get to the end.
    """
    source = read_checkpoint(checkpoint)
    folder = choose_adapter(adapter, source.architecture).folder
    lengths = [prompt_tokens] * requests
    job = {
        "checkpoint": str(checkpoint.resolve()),
        "trust_remote_code": False,  # the native side is one of vLLM's own models
        "prompts": random_prompts(lengths, source.vocabulary, seed, special_tokens(source.config)),
        "tokens": tokens,
        "batch_sizes": [requests],
        "dtype": "float32",
        "seed": seed,
        "top": 1,
        "context": prompt_tokens + tokens,
        "page": None,
        "kv_cache_bytes": source.cache_bytes(requests * (prompt_tokens + tokens)),
    }
    order = [("adapter", folder), ("native", None)]
    results: dict[str, Side] = {}
    for _ in range(rounds):
        _round(order, job, threads, repetitions, results, on_stage)
        order.reverse()
    return Throughput(requests, prompt_tokens, tokens, results["adapter"], results["native"])


def _round(
    order: list[tuple[str, Path | None]],
    job: dict[str, Any],
    threads: int,
    repetitions: int,
    results: dict[str, Side],
    on_stage: OnStage | None,
) -> None:
    """Starts both engines in this order, lets them take turns, and adds what they did to the results."""
    generated = len(job["prompts"]) * job["tokens"]
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kunport-")))
        sides = {name: stack.enter_context(_start(name, path, work, threads, on_stage)) for name, path in order}
        for name, side in sides.items():
            ran = _load(name, side, job)
            results.setdefault(name, Side(ran, [], []))
        for turn in range(repetitions):
            for name in sides if turn % 2 == 0 else reversed(sides):
                sides[name].send(turn)
                taken = _facts(name, sides[name], f"turn {turn}")
                results[name].tokens_per_second.append(generated / taken["seconds"])
                results[name].tokens_per_cpu_second.append(generated / taken["cpu_seconds"])
        for side in sides.values():
            side.send(None)
            side.follow()


def _start(name: str, adapter: Path | None, work: Path, threads: int, on_stage: OnStage | None) -> Supervised:
    return Supervised(
        name,
        [sys.executable, "-m", "kunport.validation.throughput"],
        environment=engine_environment(adapter, threads),
        log=work / f"{name}.log",
        stage_seconds=_STAGE_SECONDS,
        on_stage=on_stage or (lambda stage: None),
    )


def _load(name: str, side: Supervised, job: dict[str, Any]) -> RanClass:
    side.send(job)
    return RanClass(**_facts(name, side, "load")["ran"])


def _facts(name: str, side: Supervised, stage: str) -> dict[str, Any]:
    outcome = side.follow(until=stage)
    if stage not in outcome.facts:
        last = outcome.stages[-1]
        raise KunportError(
            f"The {name} engine {last.status} in its stage {last.name!r}: {last.detail}.",
            "Run `kunport validate` on it first; speed means nothing before that passes.",
        )
    return outcome.facts[stage]
