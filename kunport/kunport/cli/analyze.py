"""``kunport analyze MODEL``: what a model is and what it does differently, read from its source."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kunport.cli.arguments import FORMATS, Verbs, add_model
from kunport.cli.conditions import CONDITIONS, DEFAULT, failing
from kunport.cli.terminal import clean, note, write

if TYPE_CHECKING:
    from kunport.analysis import Analysis


def add_to(verbs: Verbs[argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    """Add the verb to the command's parser."""
    parser = verbs.add_parser(
        "analyze",
        parents=[common],
        help="say what a model does, and what it does differently",
        description="Reads a model's source without running it, and the headers of its weights. Exit status 1 where "
        "something is not understood or the weights do not fit, or as --fail-on says.",
    )
    add_model(parser)
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="write there instead of printing, whole or not at all"
    )
    parser.add_argument(
        "--fail-on",
        action="append",
        choices=(*CONDITIONS, "nothing"),
        help=f"when to exit with status 1; may be repeated (default: {' and '.join(DEFAULT)})",
    )
    parser.set_defaults(run=run, formats=FORMATS)


def run(options: argparse.Namespace) -> int:
    """Print or write the answer; 1 where a condition of --fail-on holds."""
    import kunport
    from kunport.description import describe
    from kunport.report.formats import Answer, render

    analysis = kunport.analyze(options.model)
    answer = Answer(describe(analysis.graph), kunport.prove_weights(analysis), _folder(analysis, options.model))
    document = clean(render(answer, options.format))
    if options.output is None:
        write(document)
    else:
        from kunport.report.files import write_document

        write_document(options.output, document)
    reasons = failing(options.fail_on or DEFAULT, analysis, answer)
    if options.fail_on or options.output:
        for reason in reasons:
            note(f"kunport: {reason}")
    return 1 if reasons else 0


def _folder(analysis: Analysis, model: str) -> Path | None:
    """The folder that names of the user's own source files are relative to."""
    if analysis.checkpoint is not None:
        return analysis.checkpoint
    return Path(model).parent if Path(model).is_file() else None
