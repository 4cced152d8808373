"""``kunport validate ADAPTER``: the real Hugging Face model against the real vLLM engine with the adapter."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kunport.cli.arguments import Verbs, add_trust
from kunport.cli.terminal import quiet_libraries, say, write
from kunport.errors import KunportError

if TYPE_CHECKING:
    from kunport.description import Description
    from kunport.validation import Report


def add_to(verbs: Verbs[argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    """Add the verb to the command's parser."""
    parser = verbs.add_parser(
        "validate",
        parents=[common],
        help="prove that an adapter computes what the real model computes",
        description="Compares log-probabilities, greedy tokens and batches, and writes report.html and report.json "
        "beside the adapter. Exit status 1 where the verdict is bad.",
    )
    parser.add_argument("adapter", metavar="ADAPTER", type=Path, nargs="?", help="the adapter's folder")
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="DIR",
        help="weights to validate with (default: tiny random ones, where kunport knows the architecture)",
    )
    parser.add_argument(
        "--dtype",
        default="float32",
        choices=("float32", "bfloat16", "float16"),
        help="what the engine computes in (float32); in others, its error may be little more than the model's own",
    )
    parser.add_argument(
        "--evidence",
        type=Path,
        metavar="DIR",
        help="also write a folder with inputs, outputs, versions, digests and the command, for --replay",
    )
    parser.add_argument(
        "--replay",
        type=Path,
        metavar="DIR",
        help="validate again what a folder of evidence holds, and tell what changed; exit status 1 where the verdict "
        "or a file of the folder did",
    )
    parser.add_argument(
        "--self-test",
        action="store_true",
        help="plant known porting bugs in the adapter, or in twelve families where none is named, and tell which are "
        "caught (minutes)",
    )
    parser.add_argument(
        "--invariance",
        action="store_true",
        help="ask the adapter the same in other orders, in pieces, from caches, on other pages, ranks and providers, "
        "and tell whether the answers stay the same (minutes)",
    )
    parser.add_argument(
        "--cell", action="append", default=[], metavar="NAME", help="with --invariance: only this cell; may be repeated"
    )
    add_trust(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Validate, print the verdict, and write the reports; 1 where the adapter is not to be trusted."""
    import tempfile

    import kunport
    from kunport.report.files import write_report
    from kunport.report.progress import StageDisplay
    from kunport.tiny_models.for_adapter import tiny_checkpoint

    quiet_libraries()
    if options.self_test:
        return _self_test(options)
    if options.replay is not None:
        return _replay(options)
    if options.invariance:
        return _invariance(options)
    if options.adapter is None:
        raise KunportError("No adapter is named.", "Name the folder that `kunport generate adapters` wrote.")
    with tempfile.TemporaryDirectory(prefix="kunport-") as folder:
        checkpoint = options.checkpoint or tiny_checkpoint(options.adapter, Path(folder) / "checkpoint")
        with StageDisplay() as display:
            report = kunport.validate(
                options.adapter,
                checkpoint,
                on_stage=display,
                dtype=options.dtype,
                trust_remote_code=options.trust_remote_code,
                recordings=Path(folder) / "recordings" if options.evidence else None,
            )
        if options.evidence is not None:
            _write_evidence(options, report, Path(folder) / "recordings")
    pages = write_report(options.adapter, report)
    print_verdict(report, None, pages, as_json=options.format == "json")
    return 0 if report.passed else 1


def _write_evidence(options: argparse.Namespace, report: Report, recordings: Path) -> None:
    import sys

    from kunport.report.files import write_report
    from kunport.validation.evidence import write_evidence

    command = ["kunport", *sys.argv[1:]]
    write_evidence(
        options.evidence, report, recordings, command=command, write_report=lambda folder: write_report(folder, report)
    )


def _replay(options: argparse.Namespace) -> int:
    """Print what is not as it was recorded; 1 where the verdict, or the record itself, is another."""
    from kunport.report.progress import StageDisplay
    from kunport.report.replay import lines
    from kunport.validation.evidence import replay

    if options.adapter is not None:
        raise KunportError("A replay has its adapter in the folder.", "Leave ADAPTER out.")
    with StageDisplay() as display:
        found = replay(options.replay, checkpoint=options.checkpoint, on_stage=display)
    if options.format == "json":
        write(json.dumps(found.as_dict(), indent=2) + "\n")
    else:
        say("\n".join(["", *lines(found)]))
    return 0 if found.confirmed else 1


def _invariance(options: argparse.Namespace) -> int:
    """Print a line for each cell as it is known, and a summary; 1 where the answers of one are not the same."""
    import tempfile

    from kunport.tiny_models.for_adapter import tiny_checkpoint
    from kunport.validation.invariance import run
    from kunport.validation.invariance.matrix import HEADER
    from kunport.validation.processes.warm import warm

    if options.adapter is None:
        raise KunportError("No adapter is named.", "Name the folder that `kunport generate adapters` wrote.")
    as_json = options.format == "json"
    with tempfile.TemporaryDirectory(prefix="kunport-") as folder, warm():
        checkpoint = options.checkpoint or tiny_checkpoint(options.adapter, Path(folder) / "checkpoint")
        if not as_json:
            say(HEADER)
        matrix = run(
            options.adapter,
            checkpoint,
            chosen=options.cell,
            dtype=options.dtype,
            trust_remote_code=options.trust_remote_code,
            on_row=None if as_json else lambda row: say(row.line()),
        )
    write(json.dumps(matrix.as_dict(), indent=2) + "\n") if as_json else say(matrix.summary())
    return 0 if matrix.passed else 1


def _self_test(options: argparse.Namespace) -> int:
    """Print a line for each bug planted, as it is judged, and a summary; 1 where the harness is not good enough."""
    import tempfile

    from kunport.tiny_models.for_adapter import tiny_checkpoint
    from kunport.validation.selftest import FAMILIES, Subject, run
    from kunport.validation.selftest.subjects import generated
    from kunport.validation.selftest.table import line

    as_json = options.format == "json"
    with tempfile.TemporaryDirectory(prefix="kunport-") as folder:
        if options.adapter is None:
            subjects = generated(FAMILIES, Path(folder))
        else:
            checkpoint = options.checkpoint or tiny_checkpoint(options.adapter, Path(folder) / "checkpoint")
            subjects = [Subject(options.adapter.name, options.adapter, checkpoint)]
        table = run(subjects, dtype=options.dtype, on_row=None if as_json else lambda row: say(line(row)))
    write(json.dumps(table.as_dict(), indent=2) + "\n") if as_json else say(table.summary())
    return 0 if table.passed else 1


def print_verdict(report: Report, description: Description | None, pages: Sequence[Path], *, as_json: bool) -> None:
    """Print the verdict table and where the reports are, or the report as JSON."""
    from kunport.report.document import as_json as to_json
    from kunport.report.terminal import print_report

    if as_json:
        write(to_json(report, description))
        return
    print_report(report)
    say(f"\nReport: {' and '.join(map(str, pages))}")
