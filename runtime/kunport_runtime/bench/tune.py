"""Finds each kernel's best configuration on this device, and writes to a tuning table what beats the one in use."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from kunport_runtime.bench.measuring import GROUPS, compile_ahead, trials
from kunport_runtime.bench.rounds import Measurement, run
from kunport_runtime.bench.trial import Contender, Trial
from kunport_runtime.providers.triton import tuning
from kunport_runtime.providers.triton.tuning import Config, Entry, Table

LEAST = 1.01
"""So many times as fast as the configuration in use is the one that takes its place: rounds differ by about as much."""
_IN_USE = "in use"


@dataclass(frozen=True, slots=True)
class Choice:
    """What a trial has shown.

    Attributes:
        operator: of the tuning table.
        label: of the trial.
        entry: dtype, shape and the configuration to be used from now on.
        before: the one that was in use; {} for the kernel's defaults.
        gain: how many times as fast the best candidate is.
        rate: of the best candidate, TB/s or TFLOP/s.
    """

    operator: str
    label: str
    entry: Entry
    before: Config
    gain: float
    rate: float

    @property
    def changes(self) -> bool:
        """Whether the table is to be changed."""
        return self.entry["config"] != self.before


def tune(groups: Sequence[str] = GROUPS, *, folder: Path, seconds: float = 500, only: str = "") -> list[Choice]:
    """Try all candidates of all trials, and write the device's table to `folder` after each.

    Where trials share dtype and shape, as variants of attention do, the first decides.

    Args:
        groups: of `GROUPS`.
        folder: for the table, which is named after the device; what it does not name stays as it was.
        seconds: after which no more candidates are tried.
        only: of the variants, rows, products and states, those with one of these texts in their names.
    """
    end = time.monotonic() + seconds
    device = torch.device("cuda")
    table = dict(tuning.table(tuning.device_name(device)))
    compile_ahead(groups or GROUPS, only)
    choices: list[Choice] = []
    decided: set[tuple[object, ...]] = set()
    for group in groups or GROUPS:
        for trial in trials(group, only):
            key = (trial.operator, trial.dtype, *trial.shape.items())
            if len(trial.candidates) < 2 or key in decided:
                continue
            decided.add(key)
            before = tuning.nearest(table, trial.operator, trial.dtype, trial.shape)
            trial.peers = [Contender(_IN_USE, trial.contender(before).launch)]
            choice = choose(trial, before, run(trial, 2, 5, end))
            if choice is not None:
                choices.append(choice)
                table = changed(table, choice)
                tuning.write_table(folder / f"{tuning.device_name(device)}.json", table)
                print(line(choice), flush=True)
            del trial
            gc.collect()
            torch.cuda.empty_cache()
    return choices


def choose(trial: Trial, before: Config, results: Sequence[Measurement]) -> Choice | None:
    """The configuration for a trial's shape, given what took part, best first; None where no candidate was right."""
    best = next((each for each in results if each.config is not None and each.contender != _IN_USE), None)
    used = next((each for each in results if each.contender == _IN_USE), None)
    if best is None or best.config is None:
        return None
    gain = best.rate / used.rate if used else float("inf")
    entry: Entry = {
        "dtype": str(trial.dtype).removeprefix("torch."),
        "shape": dict(trial.shape),
        "config": best.config if gain > LEAST else before,
    }
    return Choice(trial.operator, trial.label, entry, before, gain, best.rate)


def changed(table: Table, choice: Choice) -> Table:
    """A table with a choice in it, in the place of the entry of that dtype and shape where there is one.

    A shape for which nothing beats the nearest entry gets none of its own.
    """
    if not choice.changes:
        return table
    same = {"dtype": choice.entry["dtype"], "shape": choice.entry["shape"]}
    others = [
        entry for entry in table.get(choice.operator, []) if {"dtype": entry["dtype"], "shape": entry["shape"]} != same
    ]
    return {**table, choice.operator: [*others, choice.entry]}


def line(choice: Choice) -> str:
    """What is said of a choice."""
    words = " ".join(f"{name}={value}" for name, value in choice.entry["config"].items()) or "the defaults"
    verdict = f"{choice.gain:.3f} of what was in use" if choice.changes else "as before"
    return f"{choice.operator} {choice.label}: {words}, {verdict}"
