"""Reads many models on several processes, each of which is replaced before it grows, and when it hangs or dies."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from kunport.survey.cache import keep, recall
from kunport.survey.row import FAILED, Row, read_row

SECONDS = 60.0  # that one model may take
_ROWS = 60  # that a process reads before another takes its place, so that memory stays bounded

Read = Callable[[str], Row]


def survey(models: Sequence[str], processes: int | None = None, seconds: float = SECONDS) -> Iterator[Row]:
    """A row for each model, in the order given, from the cache where it has them.

    Args:
        models: as `kunport.analyze` takes them.
        processes: how many read at once; as many as there are processors by default.
        seconds: after which a model is given up.
    """
    known = {model: row for model in models if (row := recall(model)) is not None}
    rows = _read([model for model in dict.fromkeys(models) if model not in known], processes, seconds)
    for model in models:
        while model not in known:
            row = next(rows)
            known[row.model] = row
            if row.verdict != FAILED:
                keep(row)
        yield known[model]


def _read(models: list[str], processes: int | None, seconds: float) -> Iterator[Row]:
    """Rows as they come."""
    pending = models[::-1]
    workers = [_Worker(seconds) for _ in range(min(processes or len(os.sched_getaffinity(0)), len(models)))]
    try:
        while pending or any(worker.model for worker in workers):
            for worker in workers:
                if not worker.model and pending:
                    worker.start(pending.pop())
            busy = [worker for worker in workers if worker.model]
            wait([worker.answers for worker in busy], timeout=1.0)
            for worker in busy:
                if (row := worker.row()) is not None:
                    yield row
    finally:
        for worker in workers:
            worker.stop()


class _Worker:
    """A process that reads one model after another."""

    def __init__(self, seconds: float) -> None:
        self.model = ""
        self._seconds = seconds
        self._process: BaseProcess | None = None
        self._read = 0

    def start(self, model: str) -> None:
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self.answers, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
            self._read = 0
        self.model, self._began = model, time.monotonic()
        self.answers.send(model)

    def row(self) -> Row | None:
        """The row of the model that is being read, None while it goes on."""
        if self.answers.poll():
            try:
                row: Row = self.answers.recv()
            except (EOFError, OSError):
                return self._given_up("the process that read it died")
            self.model = ""
            self._read += 1
            if self._read >= _ROWS:
                self.stop()
            return row
        if time.monotonic() - self._began > self._seconds:
            return self._given_up(f"it takes longer than {self._seconds:.0f} s")
        return None

    def _given_up(self, reason: str) -> Row:
        row = Row(self.model, FAILED, f"Given up: {reason}.")
        self.stop()
        return row

    def stop(self) -> None:
        """End the process."""
        self.model = ""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self.answers.close()
            self._process = None


def _serve(requests: Connection) -> None:
    while True:
        try:
            requests.send(read_row(requests.recv()))
        except (EOFError, OSError):
            return
