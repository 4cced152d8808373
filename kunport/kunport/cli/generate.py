"""``kunport generate adapters MODEL``: writes the vLLM adapter of a model, without running either."""

from __future__ import annotations

import argparse
import json

from kunport.cli.arguments import Verbs, add_model, add_output
from kunport.cli.terminal import say


def add_to(verbs: Verbs[argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    """Add the verb to the command's parser."""
    generate = verbs.add_parser("generate", help="write a model's vLLM adapter")
    parser = generate.add_subparsers(title="what to generate", metavar="WHAT", required=True).add_parser(
        "adapters",
        parents=[common],
        help="the vLLM model class, its tests and its manifest",
        description="Writes DIR/MODEL_TYPE, the adapter that vLLM uses when KUNPORT_ADAPTER_PATH names DIR. "
        "Exit status 1 where the model cannot be ported yet; there is no adapter then.",
    )
    add_model(parser)
    add_output(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Generate, and say where; a model that cannot be ported is the command's to report."""
    import kunport

    folder = kunport.generate_adapter(kunport.analyze(options.model), options.output)
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    if options.format == "json":
        say(json.dumps({"adapter": str(folder), "files": files}))
    else:
        say(f"Wrote {folder}: {', '.join(files)}.")
        say(f"vLLM uses it with KUNPORT_ADAPTER_PATH={options.output.absolute()}.")
    return 0
