"""Runs trials: judges every candidate, sweeps them once, then lets the best and the peers take turns.

Cards differ by several percent and slow down as they warm, so only what was measured in turns, in one run, compares.
"""

import statistics
import time
from dataclasses import dataclass

import torch
from triton.testing import do_bench

from kunport_runtime.bench.trial import Contender, Launch, Trial
from kunport_runtime.providers.triton.tuning import Config


@dataclass(frozen=True, slots=True)
class Measurement:
    """One contender of a trial: its rates (TB/s or TFLOP/s) of every round, and its error."""

    operator: str
    label: str
    contender: str
    config: Config | None
    rates: list[float]
    error: float | None

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)


def copy_of(size: int) -> Contender:
    """Copies so that `size` bytes move, half read and half written."""
    source = torch.randn(size // 4, device="cuda").to(torch.bfloat16)
    target = torch.empty_like(source)
    return Contender("copy", lambda: target.copy_(source), work=size)


def run(trial: Trial, finalists: int, rounds: int, deadline: float) -> list[Measurement]:
    """Finalists and peers, best first, then what was only swept; what is wrong is reported and takes no part."""
    swept: list[tuple[float, float, Contender]] = []
    for config in trial.candidates:
        if time.monotonic() > deadline:
            print(f"  {trial.label}: out of time", flush=True)
            break
        contender = trial.contender(config)
        try:
            error = _judge(trial, contender)
            if not error <= trial.limit:
                print(f"  WRONG {trial.operator} {trial.label} {contender.name}: error {error:.1e}", flush=True)
                continue
            swept.append((_measure(contender, 20), error, contender))
        except Exception as problem:
            print(f"  FAILED {trial.operator} {trial.label} {contender.name}: {str(problem)[:150]!r}", flush=True)
    swept.sort(key=lambda each: each[0])
    best: list[tuple[float | None, Contender]] = [(error, contender) for _, error, contender in swept[:finalists]]
    turns = best + [(None, peer) for peer in trial.peers]
    times: dict[str, list[float]] = {contender.name: [] for _, contender in turns}
    for _ in range(rounds):
        for _, contender in turns:
            times[contender.name].append(_measure(contender, 40))
    results = [
        Measurement(
            trial.operator,
            trial.label,
            each.name,
            each.config,
            [trial.rate(each, ms) for ms in times[each.name]],
            error,
        )
        for error, each in turns
    ]
    results.sort(key=lambda each: -each.rate)
    return results + [
        Measurement(trial.operator, trial.label, each.name, each.config, [trial.rate(each, ms)], error)
        for ms, error, each in swept[finalists:]
    ]


def _judge(trial: Trial, contender: Contender) -> float:
    trial.reset()
    contender.launch()
    torch.cuda.synchronize()
    return trial.error()


def _measure(contender: Contender, milliseconds: int) -> float:
    return float(do_bench(_replayed(contender.launch), warmup=10, rep=milliseconds, return_mode="median"))


def _replayed(launch: Launch) -> Launch:
    """The same from a graph, so that what is timed is the device and not the host; as it is where that cannot be."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            launch()
    except Exception:  # it asks the device something on its way
        torch.cuda.synchronize()
        return launch
    return graph.replay
