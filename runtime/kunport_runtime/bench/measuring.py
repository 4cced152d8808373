"""Tunes and measures the Triton kernels on this device: prints a line a trial, writes numbers and a tuning table."""

import gc
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch

from kunport_runtime.bench import (
    ahead,
    attention_trials,
    contracts,
    latent_trials,
    product_trials,
    row_trials,
    state_trials,
)
from kunport_runtime.bench.rounds import Measurement, run
from kunport_runtime.bench.trial import Trial
from kunport_runtime.providers.triton import tuning

GROUPS = ("decode", "prefill", "variants", "mixed", "latent", "rows", "products", "states")
"""Paged attention of one query a sequence and of many, its variants beside the plain form, both in a batch, latent
attention, rows, products, and what keeps a state."""


def measure(
    groups: Sequence[str] = GROUPS,
    *,
    out: Path,
    seconds: float = 500,
    finalists: int = 2,
    rounds: int = 5,
    only: str = "",
    check: bool = False,
) -> list[Measurement]:
    """All trials of some groups, all of them by default.

    Args:
        groups: of `GROUPS`.
        out: folder for measurements.json and for the tuning table that follows, named after the device.
        seconds: after which no more candidates are tried.
        finalists: candidates that take turns with the peers.
        rounds: turns of each.
        only: of the variants, rows and products, those that have this in their names, or one of several texts that
            commas separate.
        check: first run every case of the contracts on the device.
    """
    groups = groups or GROUPS
    begin = time.monotonic()
    compile_ahead(groups, only, check)
    if check:
        contracts.report()
    measurements: list[Measurement] = []
    table: tuning.Table = {}
    out.mkdir(parents=True, exist_ok=True)
    for group in groups:
        for trial in trials(group, only):
            results = run(trial, finalists, rounds, begin + seconds)
            measurements += results
            _print(trial, results)
            winner = next((each for each in results if each.config is not None), None)
            if winner and winner.config:
                dtype = str(trial.dtype).removeprefix("torch.")
                entry: tuning.Entry = {"dtype": dtype, "shape": dict(trial.shape), "config": winner.config}
                table.setdefault(trial.operator, []).append(entry)
            (out / "measurements.json").write_text(json.dumps([asdict(each) for each in measurements]))
            tuning.write_table(out / f"{tuning.device_name(torch.device('cuda'))}.json", table)
            del trial, results
            gc.collect()
            torch.cuda.empty_cache()
    print(f"done in {time.monotonic() - begin:.0f} s")
    return measurements


def compile_ahead(groups: Sequence[str], only: str, check: bool = False) -> None:
    """Compile what the trials of some groups will launch, and with `check` the cases of the contracts, side by side."""
    begin = time.monotonic()
    jobs = list(contracts.compilations()) if check else []
    if {"decode", "prefill"} & set(groups):
        jobs += list(attention_trials.compilations())
    makers = {
        "variants": attention_trials.variant_compilations,
        "latent": latent_trials.compilations,
        "rows": row_trials.compilations,
        "products": product_trials.compilations,
        "states": state_trials.compilations,
    }
    for group, make in makers.items():
        if group in groups:
            jobs += list(make(only))
    for error in ahead.compile_in_parallel(jobs):
        print(f"  does not compile: {error}")
    print(f"{len(jobs)} compiled in {time.monotonic() - begin:.0f} s on {torch.cuda.get_device_name()}", flush=True)


def trials(group: str, only: str) -> Iterator[Trial]:
    """Those of a group, one of `GROUPS`."""
    makers: dict[str, Callable[[], Iterator[Trial]]] = {
        "decode": attention_trials.decode_trials,
        "prefill": attention_trials.prefill_trials,
        "variants": partial(attention_trials.variant_trials, only),
        "mixed": attention_trials.mixed_trials,
        "latent": partial(latent_trials.latent_trials, only),
        "rows": partial(row_trials.row_trials, only),
        "products": partial(product_trials.product_trials, only),
        "states": partial(state_trials.state_trials, only),
    }
    return makers[group]()


def _print(trial: Trial, results: list[Measurement]) -> None:
    """One line: the copy, cuDNN or cuBLAS, then ours, best first, as rate, share of that peer and spread."""
    unit = "TB/s" if trial.unit == "bytes" else "TFLOP/s"
    digits = 3 if trial.unit == "bytes" else 0
    peer = next((each.rate for each in results if each.contender in ("copy", "cuDNN", "cuBLAS")), None)
    cells = []
    for each in [*results[:4], *(each for each in results[4:] if each.config is None)]:
        share = f" ({each.rate / peer:.3f})" if peer else ""
        cells.append(
            f"{each.contender} {each.rate:.{digits}f}{share}"
            f" [{min(each.rates):.{digits}f}-{max(each.rates):.{digits}f}]"
        )
    print(f"{trial.operator} {trial.label}, {unit}: " + "; ".join(cells), flush=True)
