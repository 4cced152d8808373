"""Parses a command, runs its verb, and turns errors into one line and an exit status.

Exit status: 0 done and good; 1 done, and the verdict is bad; 2 the input or the call is wrong; 70 a bug of kunport;
130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from functools import cache
from typing import NoReturn

from kunport.cli import adapters, analyze, generate, ops, port, profile, tiny, validate
from kunport.cli.arguments import FORMATS, PLAIN_FORMATS
from kunport.cli.terminal import accept_any_text, note, say
from kunport.errors import KunportError, NotPortableError
from kunport.text import visible
from kunport.version import VERSION

BUG = os.EX_SOFTWARE
VERBS = (analyze, generate, validate, port, tiny, ops, profile, adapters)

_DESCRIPTION = """Ports Hugging Face models to vLLM: reads their source, writes the adapter, proves the numerics.

MODEL is a checkpoint folder, a modeling file, an architecture (Olmo2ForCausalLM) or a model type (olmo2)."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise KunportError(f"{message[:1].upper()}{message[1:]}.", f"See `{self.prog} --help`.")


class _Terminated(KeyboardInterrupt):
    """SIGTERM: to be cleaned up after as an interruption from the keyboard is."""


def _terminate(*_: object) -> NoReturn:
    raise _Terminated


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status; ``arguments`` are the process's by default."""
    if arguments is None:  # a command of its own, not a call from within another program
        arguments = sys.argv[1:]
        signal.signal(signal.SIGTERM, _terminate)
    accept_any_text()
    options = argparse.Namespace(debug="--debug" in arguments, format="text", formats=PLAIN_FORMATS)
    try:
        _parser().parse_args(arguments, options)
        _check_format(options)
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except KunportError as error:
        _report_error(error, options)
        return 2
    except NotPortableError as error:
        _report_unknowns(error, options)
        return 1
    except RecursionError:  # of the readers of a source whose values are built of thousands of others
        if options.debug:
            raise
        _report_error(KunportError("The model's expressions nest too deeply.", "Check its source."), options)
        return 2
    except BrokenPipeError:  # the reader of our output has had enough, `| head` for one
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt as interruption:
        note("kunport: interrupted")
        return 128 + (signal.SIGTERM if isinstance(interruption, _Terminated) else signal.SIGINT)
    except Exception as error:
        if options.debug:
            raise
        bug = f"This is a bug of kunport ({type(error).__name__}: {error})."
        _report_error(KunportError(bug, "Run it again with --debug and report what that shows."), options)
        return BUG


@cache
def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="kunport",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[_common(FORMATS)],
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb in VERBS:
        verb.add_to(verbs, _common(FORMATS if verb is analyze else PLAIN_FORMATS))
    return parser


def _common(formats: Sequence[str]) -> argparse.ArgumentParser:
    """The options that may stand before or after the verb."""
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    common.add_argument("--format", choices=formats, help="of what is printed (default: text)")
    common.add_argument("--debug", action="store_true", help="show where an error was raised")
    return common


def _check_format(options: argparse.Namespace) -> None:
    if options.format not in options.formats:
        raise KunportError(f"Only `kunport analyze` writes {options.format}.", f"Use {' or '.join(options.formats)}.")


class _Version(argparse.Action):
    """Prints the version."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(f"kunport {VERSION}")
        parser.exit()


def _report_error(error: KunportError, options: argparse.Namespace) -> None:
    if options.debug:
        import traceback

        note("".join(traceback.format_exception(error)).rstrip())
    if options.format == "json":
        say(json.dumps({"error": {"problem": error.problem, "cure": error.cure}}))
    note(f"kunport: {visible(error.problem)} {visible(error.cure)}")


def _report_unknowns(error: NotPortableError, options: argparse.Namespace) -> None:
    if options.format == "json":
        unknowns = [{"reason": each.reason, "where": str(each.where)} for each in error.unknowns]
        say(json.dumps({"verdict": "not understood", "unknowns": unknowns}))
        return
    say("The model cannot be ported yet:")
    for unknown in error.unknowns:
        say(f"    {unknown}")
