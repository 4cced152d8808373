"""``kunport tiny MODEL``: a small random checkpoint of any architecture."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from kunport.cli.arguments import Verbs
from kunport.cli.terminal import quiet_libraries, say


def add_to(verbs: Verbs[argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    """Add the verb to the command's parser."""
    parser = verbs.add_parser(
        "tiny",
        parents=[common],
        help="write a small random checkpoint of an architecture",
        description="Writes a checkpoint folder with random weights of about a megabyte, for tests.",
    )
    parser.add_argument(
        "model", metavar="MODEL", help="an architecture, a model type or a variant (gemma2:query_scale)"
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="the checkpoint folder (default: MODEL-tiny)")
    parser.add_argument("--seed", type=_seed, default=0, metavar="SEED", help="of the weights (0)")
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), default="float32", help="(float32)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write the checkpoint and say where."""
    import kunport

    quiet_libraries()
    output = options.output or Path(f"{options.model.replace(':', '-')}-tiny")
    folder = kunport.tiny(options.model, output, seed=options.seed, dtype=options.dtype)
    if options.format == "json":
        say(json.dumps({"checkpoint": str(folder)}))
    else:
        say(f"Wrote {folder}, a tiny checkpoint of {options.model} with random weights.")
    return 0


def _seed(text: str) -> int:
    """A seed that torch takes."""
    if not (text.isdecimal() and int(text) < 1 << 63):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number below 2**63")
    return int(text)
