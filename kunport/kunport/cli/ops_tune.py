"""``kunport ops tune``: the best configuration of each kernel on this accelerator, as a table for kernels to follow."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import redirect_stdout
from dataclasses import asdict

from kunport.cli.arguments import Verbs
from kunport.cli.ops_bench import add_trials, check_trials
from kunport.cli.terminal import say


def add_to(what: Verbs[argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    """Add the verb to those of `kunport ops`."""
    tune = what.add_parser(
        "tune",
        parents=[common],
        help="find the best configuration of each Triton kernel on this accelerator, and write a table",
        description="Each candidate is held against float64 first. The best two then take turns with the configuration "
        "in use, which goes only where one is faster by more than a percent. Writes FOLDER/DEVICE.json, which is used "
        "where KUNPORT_TUNING names FOLDER; what was not tried stays as it was.",
    )
    add_trials(tune, "tuning", "for the table (tuning)")
    tune.set_defaults(run=run_tune)


def run_tune(options: argparse.Namespace) -> int:
    """Tune, and print a line a trial; 1 where none could be judged."""
    check_trials(options)
    from kunport_runtime.bench.tune import tune

    with redirect_stdout(sys.stderr if options.format == "json" else sys.stdout):
        choices = tune(options.groups, folder=options.out, only=options.only, seconds=options.seconds)
    if options.format == "json":
        say(json.dumps([asdict(each) | {"changes": each.changes} for each in choices]))
    else:
        changes = sum(each.changes for each in choices)
        say(f"{changes} of {len(choices)} configurations are new; set KUNPORT_TUNING={options.out.absolute()}.")
    return 0 if choices else 1
