"""``kunport profile FOLDER``: what the operators of a server took, by operator and by layer."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from kunport.cli.arguments import Verbs
from kunport.cli.ops import runtime_errors
from kunport.cli.terminal import say

if TYPE_CHECKING:
    from kunport.profiling.summary import Row

_LAYERS = 20  # printed; the page and JSON have all


def add_to(verbs: Verbs[argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    """Add the verb to the command's parser."""
    profile = verbs.add_parser(
        "profile",
        parents=[common],
        help="what the operators of a server took, by operator, layer and provider",
        description="Reads what the processes of a server wrote when they ended, if it ran with "
        "KUNPORT_OPS_PROFILE=FOLDER. Graphs hide their operators: give the server --enforce-eager.",
    )
    profile.add_argument("folder", metavar="FOLDER", type=Path, help="what KUNPORT_OPS_PROFILE named")
    profile.add_argument("--html", metavar="FILE", type=Path, help="write a page, too")
    profile.add_argument("--trace", metavar="FILE", type=Path, help="write a trace for Perfetto, too")
    profile.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the tables, and write what is asked for."""
    from kunport.profiling.page import page
    from kunport.profiling.summary import by_layer, by_operator
    from kunport.profiling.trace import trace

    with runtime_errors():
        from kunport_runtime.operators.profile_files import read_profiles

        profiles = read_profiles(options.folder)
    if options.html is not None:
        options.html.write_text(page(profiles), encoding="utf-8")
    if options.trace is not None:
        options.trace.write_text(trace(profiles), encoding="utf-8")
    operators, layers = by_operator(profiles), by_layer(profiles)
    memory = [{"process": profile.process, **pool} for profile in profiles for pool in profile.memory]
    if options.format == "json":
        tables = {"operators": [asdict(row) for row in operators], "layers": [asdict(row) for row in layers]}
        say(json.dumps({**tables, "memory": memory}))
        return 0
    _print("operator", operators)
    _print("layer", layers[:_LAYERS])
    if len(layers) > _LAYERS:
        say(f"and {len(layers) - _LAYERS} layers more")
    for pool in memory:
        say(f"memory {pool['tag']}: {pool['reserved'] / 2**20:,.1f} MiB reserved, {pool['peak'] / 2**20:,.1f} at most")
    return 0


def _print(what: str, rows: Sequence[Row]) -> None:
    say(f"{'ms':>10} {'share':>6} {'calls':>8} {'us a call':>10} {'of a copy':>9}  {what}")
    for row in rows:
        copied = "" if row.copied is None else f"{row.copied:.2f}"
        reasons = "".join(f"    not {provider}: {reason}" for provider, reason in row.skipped.items())
        name = f"{row.name or '(no layer)'}{f' ({row.provider})' if row.provider else ''}"
        mean = 1e3 * row.milliseconds / row.count
        say(f"{row.milliseconds:10.2f} {row.share:6.1%} {row.count:8} {mean:10.1f} {copied:>9}  {name}{reasons}")
