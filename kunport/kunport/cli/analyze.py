"""``kunport analyze MODEL``: what a model is and what it does differently, read from its source."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kunport.cli.arguments import FORMATS, PLAIN_FORMATS, Verbs
from kunport.cli.conditions import CONDITIONS, DEFAULT, OF_ROWS, OF_ROWS_DEFAULT, failing, failing_rows
from kunport.cli.terminal import clean, note, write
from kunport.errors import KunportError
from kunport.text import counted
from kunport.uncollected import uncollected

if TYPE_CHECKING:
    from kunport_codegen.graph import Graph

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
    parser.add_argument(
        "models",
        metavar="MODEL",
        nargs="*",
        help="a checkpoint folder, a modeling file, an architecture or a model type; several give a line each",
    )
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="every modeling_*.py below a folder, a line each")
    parser.add_argument("--against", metavar="OTHER", help="print the facts in which MODEL differs from another")
    parser.add_argument("--list-variants", action=ListVariants, help="print the keys of all facts, and exit")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="write there instead of printing, whole or not at all"
    )
    parser.add_argument(
        "--fail-on",
        action="append",
        choices=(*CONDITIONS, "error", "nothing"),
        help=f"when to exit with status 1; may be repeated (default: {' and '.join(DEFAULT)})",
    )
    parser.set_defaults(run=run, formats=FORMATS)


class ListVariants(argparse.Action):
    """``--list-variants``: prints the catalogue of variants and ends the command, as ``--help`` does."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:  # noqa: A002
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print and exit."""
        from kunport.variants.reference import listing

        write(listing() + "\n")
        parser.exit()


def run(options: argparse.Namespace) -> int:
    """Print or write the answer; 1 where a condition of --fail-on holds."""
    if options.against is not None and (options.all is not None or len(options.models) > 1):
        raise KunportError("--against compares one model with another.", "Name one MODEL.")
    if (options.all is None and not options.models) or "" in options.models:
        raise KunportError("No model is named.", "See `kunport analyze --help`.")
    if options.all is not None or len(options.models) > 1:
        return _run_many(options)
    with uncollected():
        return _run_one(options) if options.against is None else _compare(options)


def _run_one(options: argparse.Namespace) -> int:
    import kunport
    from kunport.description import describe
    from kunport.report.formats import Answer, render

    (model,) = options.models
    analysis = kunport.analyze(model)
    answer = Answer(describe(analysis.graph), kunport.prove_weights(analysis), _folder(analysis, model))
    _give(options, render(answer, options.format))
    return _status(options, failing(options.fail_on or DEFAULT, analysis, answer))


def _compare(options: argparse.Namespace) -> int:
    """Print the facts that differ; 1 where they do and --fail-on says difference. Differing alone is no failure."""
    import kunport
    from kunport.report.comparison import comparison_json, comparison_text, counted
    from kunport.variants import compare, read_facts

    if options.format not in PLAIN_FORMATS:
        raise KunportError(f"A comparison is not written as {options.format}.", "Use text or json.")
    if refused := set(options.fail_on or ()) - {"difference", "nothing"}:
        raise KunportError(
            f"--fail-on {min(refused)} is for one model.", "With --against there are difference and nothing."
        )
    graphs = [kunport.analyze(model).graph for model in (options.models[0], options.against)]
    left, right = map(read_facts, graphs)
    document = comparison_json if options.format == "json" else comparison_text
    differences = [] if _same(*graphs) else compare(left, right)
    _give(options, document(left, right, differences))
    reasons = [counted(differences)] if differences and "difference" in (options.fail_on or ()) else []
    return _status(options, reasons)


def _same(left: Graph, right: Graph) -> bool:
    """Whether both were read from the same bytes and the same configuration: what is not known is then the same too."""
    ours, theirs = (sorted(graph.sources.values()) for graph in (left, right))
    return ours == theirs and left.config == right.config and left.architecture == right.architecture


def _run_many(options: argparse.Namespace) -> int:
    from kunport.survey import modeling_files, survey
    from kunport.survey.row import OTHER
    from kunport.survey.table import as_json, as_text

    if options.format not in PLAIN_FORMATS:
        raise KunportError(f"Several models are not written as {options.format}.", "Use text or json, or name one.")
    if refused := set(options.fail_on or ()) - {*OF_ROWS, "nothing"}:
        known = ", ".join(OF_ROWS)
        raise KunportError(
            f"--fail-on {min(refused)} is for one model.", f"With several there are {known} and nothing."
        )
    files, others = modeling_files(options.all) if options.all is not None else ([], 0)
    if others:
        count = counted(others, "other Python file", "is", "are")
        note(f"kunport: {count} read only where a modeling_*.py imports {'it' if others == 1 else 'them'}.")
    models = options.models + [str(path) for path in files]
    rows = list(survey(models))
    _give(options, as_json(rows) if options.format == "json" else as_text(rows))
    if wrong := [row for row in rows if row.verdict == OTHER and not Path(row.model).exists()]:
        raise KunportError(wrong[0].reason, "The others are answered.")
    return _status(options, failing_rows(options.fail_on or OF_ROWS_DEFAULT, rows))


def _give(options: argparse.Namespace, document: str) -> None:
    """Print the document, or write it where --output says."""
    if options.output is None:
        write(document)
        return
    from kunport.report.files import write_document

    write_document(options.output, clean(document))


def _status(options: argparse.Namespace, reasons: list[str]) -> int:
    """1 where there are reasons to fail; they are told where the answer on the terminal does not show them."""
    if options.fail_on or options.output:
        for reason in reasons:
            note(f"kunport: {reason}")
    return 1 if reasons else 0


def _folder(analysis: Analysis, model: str) -> Path | None:
    """The folder that names of the user's own source files are relative to."""
    if analysis.checkpoint is not None:
        return analysis.checkpoint
    return Path(model).parent if Path(model).is_file() else None
