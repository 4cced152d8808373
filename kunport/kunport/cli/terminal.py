"""What reaches the terminal: results on the standard output, progress and errors on the standard error."""

from __future__ import annotations

import os
import sys

from kunport.text import visible


def clean(text: object) -> str:
    """``text`` with its line breaks, and everything else that could steer a terminal written as an escape."""
    return "\n".join(visible(line) for line in str(text).split("\n"))


def say(text: object = "") -> None:
    """Print a part of the result."""
    print(clean(text))


def write(document: str) -> None:
    """Print a whole document that ends in a line break."""
    print(clean(document), end="")


def note(text: object) -> None:
    """Print progress or an error, at once."""
    print(clean(text), file=sys.stderr, flush=True)


def accept_any_text() -> None:
    """Keep a terminal of a narrow encoding from raising: what it cannot show is escaped."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def quiet_libraries() -> None:
    """Keep Transformers, in this process and those below it, from printing warnings and progress of its own."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
