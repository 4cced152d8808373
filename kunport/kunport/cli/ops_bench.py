"""``kunport ops bench``: how fast the kernels are on this accelerator, beside a copy and whoever else is installed."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

from kunport.cli.arguments import Verbs
from kunport.cli.terminal import say
from kunport.errors import KunportError

_GROUPS = ("decode", "prefill", "variants", "mixed", "latent", "rows", "products", "states")


def add_to(what: Verbs[argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    """Add the verb to those of `kunport ops`."""
    bench = what.add_parser(
        "bench",
        parents=[common],
        help="measure the Triton kernels on this accelerator, beside others' where these are installed",
        description="Each candidate is held against float64 first. The best then take turns with a copy of as many "
        "bytes, torch, and vLLM's, Liger's and FlagGems's kernels where these are installed. Writes measurements.json "
        "and a tuning table, which is used where KUNPORT_TUNING names its folder.",
    )
    add_trials(bench, "bench", "for the results (bench)")
    bench.set_defaults(run=run_bench)


def add_trials(parser: argparse.ArgumentParser, folder: str, purpose: str) -> None:
    """Add the arguments that say what is measured, and where results go."""
    parser.add_argument("groups", metavar="GROUP", nargs="*", help=f"of {', '.join(_GROUPS)} (default: all)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", default=Path(folder), help=purpose)
    parser.add_argument(
        "--only",
        metavar="TEXT,TEXT",
        default="",
        help="of variants, latent, rows, products and states, those with one of these in their names",
    )
    parser.add_argument("--seconds", type=float, metavar="N", default=500, help="then try no more candidates (500)")


def run_bench(options: argparse.Namespace) -> int:
    """Measure, and print a line a trial; 1 where there was none."""
    check_trials(options)
    from kunport_runtime.bench.measuring import measure

    with redirect_stdout(sys.stderr if options.format == "json" else sys.stdout):
        found = measure(options.groups, out=options.out, only=options.only, seconds=options.seconds)
    if options.format == "json":
        say(json.dumps([asdict(each) | {"rate": each.rate} for each in found]))
    return 0 if found else 1


def check_trials(options: argparse.Namespace) -> None:
    """Raise where a group is none, or nothing can be measured here."""
    if unknown := sorted(set(options.groups) - set(_GROUPS)):
        raise KunportError(f"There is no group {', '.join(unknown)}.", f"Take some of {', '.join(_GROUPS)}.")
    missing = [name for name in ("torch", "triton") if find_spec(name) is None]
    if missing:
        raise KunportError(f"Kernels need {' and '.join(missing)}.", f"Run `pip install {' '.join(missing)}`.")
    import torch

    if not torch.cuda.is_available():
        raise KunportError(
            "There is no accelerator that torch can use, and kernels are measured nowhere else.",
            "`kunport ops check OPERATOR --provider triton` says here whether one is right.",
        )
