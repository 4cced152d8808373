"""Tunes and measures the Triton kernels on this device: prints a line a trial, writes numbers and a tuning table."""

import gc
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from kunport_runtime.bench import ahead, attention_trials, contracts, product_trials, row_trials
from kunport_runtime.bench.rounds import Measurement, run
from kunport_runtime.bench.trial import Trial
from kunport_runtime.providers.triton import tuning

GROUPS = ("decode", "prefill", "variants", "rows", "products")
"""Paged attention of one query a sequence and of many, its variants beside the plain form, rows, and products."""


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
        only: of the rows and products, operators that have this in their names.
        check: first run every case of the contracts on the device.
    """
    groups = groups or GROUPS
    begin = time.monotonic()
    jobs = list(contracts.compilations()) if check else []
    if {"decode", "prefill"} & set(groups):
        jobs += list(attention_trials.compilations())
    if "variants" in groups:
        jobs += list(attention_trials.variant_compilations())
    if "rows" in groups:
        jobs += list(row_trials.compilations(only))
    if "products" in groups:
        jobs += list(product_trials.compilations(only))
    for error in ahead.compile_in_parallel(jobs):
        print(f"  does not compile: {error}")
    print(f"{len(jobs)} compiled in {time.monotonic() - begin:.0f} s on {torch.cuda.get_device_name()}", flush=True)
    if check:
        contracts.report()
    measurements: list[Measurement] = []
    table: dict[str, list[dict[str, object]]] = {}
    out.mkdir(parents=True, exist_ok=True)
    for group in groups:
        for trial in _trials(group, only):
            results = run(trial, finalists, rounds, begin + seconds)
            measurements += results
            _print(trial, results)
            winner = next((each for each in results if each.config is not None), None)
            if winner:
                entry = {"dtype": str(trial.dtype).removeprefix("torch."), "shape": dict(trial.shape)}
                table.setdefault(trial.operator, []).append({**entry, "config": winner.config})
            (out / "measurements.json").write_text(json.dumps([asdict(each) for each in measurements]))
            (out / f"{tuning.device_name(torch.device('cuda'))}.json").write_text(json.dumps(table, indent=1))
            del trial, results
            gc.collect()
            torch.cuda.empty_cache()
    print(f"done in {time.monotonic() - begin:.0f} s")
    return measurements


def _trials(group: str, only: str) -> Iterator[Trial]:
    if group == "decode":
        return attention_trials.decode_trials()
    if group == "prefill":
        return attention_trials.prefill_trials()
    if group == "variants":
        return attention_trials.variant_trials()
    if group == "products":
        return product_trials.product_trials(only)
    return row_trials.row_trials(only)


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
