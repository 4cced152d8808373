"""Runs cases through the command line, in a process with limits, and says how each ends."""

from __future__ import annotations

import contextlib
import hashlib
import io
import resource
import signal
import time
import unicodedata
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

MEMORY = 1 << 30  # bytes of address space, of the whole process
_FORMATS = ("text", "json", "markdown", "html", "sarif")
_STEERING = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_ENDINGS = {0: "report", 1: "unknown", 2: "refused"}  # by exit status: a checkpoint without weights has no other 1


@dataclass(frozen=True, slots=True)
class Ending:
    """How a case ends.

    Attributes:
        kind: ``report``, ``unknown`` (a report in which something is not understood), ``refused`` or ``failure``.
        problem: what is wrong about it, "" but for a failure.
        digest: of what the case holds, so that the same case twice counts once.
        seconds: of processor time.
        memory: bytes that the process held at most.
    """

    kind: str
    problem: str = ""
    digest: str = ""
    seconds: float = 0.0
    memory: int = 0


def serve(requests: Connection, folder: Path, seed: int, seconds: float) -> None:
    """Answer each case number with its `Ending`; die by SIGPROF where it takes longer than ``seconds``."""
    from kunport.fuzz.cases import write_case

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        try:
            number = requests.recv()
            model = write_case(number, seed, folder / str(number % 2))  # no file is written where the last one was read
            requests.send("")  # the clock starts
            _forget_peak()
            began = time.process_time()
            signal.setitimer(signal.ITIMER_PROF, seconds)
            ending = judge(model, _FORMATS[number % len(_FORMATS)])
            signal.setitimer(signal.ITIMER_PROF, 0)
            taken = time.process_time() - began
            requests.send(Ending(ending.kind, ending.problem, _digest(folder / str(number % 2)), taken, _peak()))
        except (EOFError, OSError):
            return


def judge(model: Path, form: str = "text") -> Ending:
    """How an analysis of this input ends: well with a report, or with one sentence of refusal."""
    from kunport.cli import main

    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main(["analyze", str(model), "--format", form])
    except BaseException as error:
        return Ending("failure", f"it raises {type(error).__name__}: {error}")
    problem = _problem(status, out.getvalue(), err.getvalue())
    return Ending("failure", problem) if problem else Ending(_ENDINGS[status])


def _problem(status: int, printed: str, told: str) -> str:
    if status not in _ENDINGS:
        return f"exit status {status}: {told.strip()[-600:]}"
    if "Traceback" in told:
        return "a traceback"
    if "the analysis itself fails" in printed:
        begin = printed.index("the analysis itself fails")
        return printed[begin : begin + 300]
    if status == 2 and (len(told.splitlines()) != 1 or not told.startswith("kunport: ")):
        return f"not one sentence: {told[:300]}"
    used = set(printed) | set(told)
    if raw := {hex(ord(each)) for each in used - {"\n"} if unicodedata.category(each) in _STEERING}:
        return f"characters that steer a terminal are printed: {sorted(raw)}"
    return ""


def _digest(folder: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


def _forget_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    """Bytes that this process held at most since `_forget_peak`; 0 where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
