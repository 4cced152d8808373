"""``kunport generate adapters MODEL``: writes the vLLM adapter of a model, without running either."""

from __future__ import annotations

import argparse
import json

from kunport.cli.arguments import Verbs, add_model, add_output
from kunport.cli.terminal import say

_PLACES = "{places} to decide between <<<<<<< and >>>>>>>."
_REMOVED = "one side removed it and the other changed it; it is there."


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
    parser.add_argument(
        "--merge",
        action="store_true",
        help="where an edited adapter stands, keep its edits in what is generated now; exit status 1 on conflicts",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Generate, and say where; a model that cannot be ported is the command's to report."""
    import kunport
    from kunport.adapter_merge import Merge

    analysis = kunport.analyze(options.model)
    if options.merge:
        merge = kunport.merge_adapter(analysis, options.output)
    else:
        merge = Merge(kunport.generate_adapter(analysis, options.output))
    folder, conflicts = merge.folder, dict(merge.conflicts)
    names = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    files = sorted(name for name in names if not name.startswith("."))
    if options.format == "json":
        say(json.dumps({"adapter": str(folder), "files": files, "merged": merge.kept, "conflicts": conflicts}))
        return int(bool(conflicts))
    say(f"Wrote {folder}: {', '.join(files)}.")
    if merge.kept:
        say(f"Your edits are in {', '.join(merge.kept)}.")
    for name, places in conflicts.items():
        say(f"Conflict in {name}: " + (_PLACES.format(places=places) if places else _REMOVED))
    say(f"vLLM uses it with KUNPORT_ADAPTER_PATH={options.output.absolute()}.")
    return int(bool(conflicts))
