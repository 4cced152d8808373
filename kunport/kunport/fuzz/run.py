"""Keeps a worker alive through many cases, and ends it where a case takes too long."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from kunport.fuzz.worker import serve

SECONDS = 10.0  # that a case may take
_START = 120.0  # seconds until a worker that was just started must have made its case


def run(numbers: Iterable[int], seed: int, seconds: float = SECONDS) -> Iterator[tuple[int, str]]:
    """Each case's number with what is wrong about how it ended, "" where nothing is."""
    context = multiprocessing.get_context("spawn")
    process = None
    with tempfile.TemporaryDirectory(prefix="kunport-fuzz-") as folder:
        try:
            for number in numbers:
                if process is None:
                    ours, theirs = context.Pipe()
                    process = context.Process(target=serve, args=(theirs, Path(folder) / "case", seed), daemon=True)
                    process.start()
                    theirs.close()
                problem = _ask(ours, number, seconds)
                yield number, problem
                if problem.startswith(("it takes", "the process")):
                    process.kill()
                    process.join()
                    ours.close()
                    process = None
        finally:
            if process is not None:
                process.kill()
                process.join()


def _ask(worker: multiprocessing.connection.Connection, number: int, seconds: float) -> str:
    try:
        worker.send(number)
        if not worker.poll(_START):
            return "the process does not start"
        worker.recv()
        if not worker.poll(seconds):
            return f"it takes longer than {seconds:.0f} s"
        answer: str = worker.recv()
        return answer
    except (EOFError, OSError):
        return "the process dies"
