"""`python -m kunport_runtime.bench [GROUP ...]`: tune and measure the Triton kernels on this device.

Groups: decode, prefill and variants (of attention), rows. Writes measurements.json and the tuning table that follows
from them into --out, and prints a table.
"""

import argparse
import gc
import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import torch

from kunport_runtime.bench import ahead, attention_trials, contracts, row_trials
from kunport_runtime.bench.rounds import Measurement, run
from kunport_runtime.bench.trial import Trial
from kunport_runtime.providers.triton import tuning

GROUPS = ("decode", "prefill", "variants", "rows")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m kunport_runtime.bench", description=__doc__.splitlines()[0])
    parser.add_argument("groups", nargs="*", help=f"of {', '.join(GROUPS)}; all by default")
    parser.add_argument("--out", type=Path, default=Path("."), help="folder for the results")
    parser.add_argument("--seconds", type=float, default=500, help="stop sweeping after so long")
    parser.add_argument("--finalists", type=int, default=2, help="candidates that take turns with the peers")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each")
    parser.add_argument("--only", default="", help="of the rows: operators that have this in their names")
    parser.add_argument("--check", action="store_true", help="first run every case of the contracts")
    options = parser.parse_args()
    groups = options.groups or list(GROUPS)
    if unknown := set(groups) - set(GROUPS):
        parser.error(f"there is no {', '.join(unknown)}")
    begin = time.monotonic()
    jobs = list(contracts.compilations()) if options.check else []
    if {"decode", "prefill"} & set(groups):
        jobs += list(attention_trials.compilations())
    if "variants" in groups:
        jobs += list(attention_trials.variant_compilations())
    if "rows" in groups:
        jobs += list(row_trials.compilations(options.only))
    for error in ahead.compile_in_parallel(jobs):
        print(f"  does not compile: {error}")
    print(f"{len(jobs)} compiled in {time.monotonic() - begin:.0f} s on {torch.cuda.get_device_name()}", flush=True)
    if options.check:
        contracts.report()
    measurements: list[Measurement] = []
    table: dict[str, list[dict[str, object]]] = {}
    for group in groups:
        for trial in _trials(group, options.only):
            results = run(trial, options.finalists, options.rounds, begin + options.seconds)
            measurements += results
            _print(trial, results)
            winner = next((each for each in results if each.config is not None), None)
            if winner:
                entry = {"dtype": str(trial.dtype).removeprefix("torch."), "shape": dict(trial.shape)}
                table.setdefault(trial.operator, []).append({**entry, "config": winner.config})
            options.out.mkdir(parents=True, exist_ok=True)
            (options.out / "measurements.json").write_text(json.dumps([asdict(each) for each in measurements]))
            (options.out / f"{tuning.device_name(torch.device('cuda'))}.json").write_text(json.dumps(table, indent=1))
            del trial, results
            gc.collect()
            torch.cuda.empty_cache()
    print(f"done in {time.monotonic() - begin:.0f} s")


def _trials(group: str, only: str) -> Iterator[Trial]:
    if group == "decode":
        return attention_trials.decode_trials()
    if group == "prefill":
        return attention_trials.prefill_trials()
    if group == "variants":
        return attention_trials.variant_trials()
    return row_trials.row_trials(only)


def _print(trial: Trial, results: list[Measurement]) -> None:
    """One line: the copy or cuDNN, then ours, best first, as rate, share of that peer and spread."""
    unit = "TB/s" if trial.unit == "bytes" else "TFLOP/s"
    digits = 3 if trial.unit == "bytes" else 0
    peer = next((each.rate for each in results if each.contender in ("copy", "cuDNN")), None)
    cells = []
    for each in [*results[:4], *(each for each in results[4:] if each.config is None)]:
        share = f" ({each.rate / peer:.3f})" if peer else ""
        cells.append(
            f"{each.contender} {each.rate:.{digits}f}{share}"
            f" [{min(each.rates):.{digits}f}-{max(each.rates):.{digits}f}]"
        )
    print(f"{trial.operator} {trial.label}, {unit}: " + "; ".join(cells), flush=True)


if __name__ == "__main__":
    main()
