"""Runs cases through the command line, in a process with limits, and says which end badly."""

from __future__ import annotations

import contextlib
import io
import resource
import unicodedata
from multiprocessing.connection import Connection
from pathlib import Path

MEMORY = 1 << 30  # bytes of address space, of the whole process
_FORMATS = ("text", "json", "markdown", "html", "sarif")
_STEERING = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def serve(requests: Connection, folder: Path, seed: int) -> None:
    """Answer each case number with what is wrong about how the case ended, "" where nothing is."""
    from kunport.fuzz.cases import write_case

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        try:
            number = requests.recv()
            model = write_case(number, seed, folder)
            requests.send("")  # the clock starts
            requests.send(judge(model, _FORMATS[number % len(_FORMATS)]))
        except (EOFError, OSError):
            return


def judge(model: Path, form: str = "text") -> str:
    """What is wrong about how an analysis of this input ends; "" for a report, or one sentence of refusal."""
    from kunport.cli import main

    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main(["analyze", str(model), "--format", form])
    except BaseException as error:
        return f"it raises {type(error).__name__}: {error}"
    printed, told = out.getvalue(), err.getvalue()
    if status not in (0, 1, 2):
        return f"exit status {status}: {told.strip()[-600:]}"
    if "Traceback" in told:
        return "a traceback"
    if "the analysis itself fails" in printed:
        begin = printed.index("the analysis itself fails")
        return printed[begin : begin + 300]
    if status == 2 and (len(told.splitlines()) != 1 or not told.startswith("kunport: ")):
        return f"not one sentence: {told[:300]}"
    if raw := {hex(ord(each)) for each in printed + told if each != "\n" and unicodedata.category(each) in _STEERING}:
        return f"characters that steer a terminal are printed: {sorted(raw)}"
    return ""
