"""Keeps a worker alive through many cases, and starts another where one died, hung or grew."""

from __future__ import annotations

import multiprocessing
import signal
import tempfile
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from kunport.fuzz.worker import Ending, serve

SECONDS = 10.0  # of processor time that a case may take
GROWN = 600 << 20  # bytes that a worker may have held before another takes over
_START = 300.0  # seconds until a worker that was just started must have made its case
_WAIT = 12  # as many times longer may a case take on the clock: other programs run too


def run(numbers: Iterable[int], seed: int, seconds: float = SECONDS) -> Iterator[tuple[int, Ending]]:
    """Each case's number with how it ended."""
    context = multiprocessing.get_context("spawn")
    process: BaseProcess | None = None
    with tempfile.TemporaryDirectory(prefix="kunport-fuzz-") as folder:
        try:
            for number in numbers:
                if process is None:
                    ours, theirs = context.Pipe()
                    process = context.Process(target=serve, args=(theirs, Path(folder), seed, seconds), daemon=True)
                    process.start()
                    theirs.close()
                ending = _ask(ours, process, number, seconds)
                yield number, ending
                if not ending.digest or ending.memory > GROWN:
                    _end(process)
                    ours.close()
                    process = None
        finally:
            if process is not None:
                _end(process)


def _ask(worker: Connection, process: BaseProcess, number: int, seconds: float) -> Ending:
    try:
        worker.send(number)
        if not worker.poll(_START):
            return Ending("failure", "the process does not start")
        worker.recv()
        if not worker.poll(seconds * _WAIT):
            return Ending("failure", f"it waits for longer than {seconds * _WAIT:.0f} s")
        answer: Ending = worker.recv()
        return answer
    except (EOFError, OSError):
        process.join()
        if process.exitcode == -signal.SIGPROF:
            return Ending("failure", f"it takes longer than {seconds:g} s")
        return Ending("failure", f"the process dies ({process.exitcode})")


def _end(process: BaseProcess) -> None:
    process.kill()
    process.join()
