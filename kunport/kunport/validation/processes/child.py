"""The child's side: a job comes in on standard input, events go out on standard output, one JSON object a line.

Whatever libraries print goes to standard error, standard output being taken away from them.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kunport_model_adapters.errors import AdapterError

from kunport.errors import KunportError

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Channel:
    """The connection to the parent.

    Events are ``{"stage": name, "status": "running"}``, again with ``"detail"`` as often as there is progress, then the
    same with ``"passed"`` and ``"facts"``, or with ``"failed"`` and ``"error"`` (one line), or with ``"refused"``,
    ``"problem"`` and ``"cure"`` where the input is to blame; in the end ``{"status": "done"}``.
    """

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        die_with_parent()

    def receive(self) -> Any:
        """The next line that the parent sent, as plain data. Raises EOFError when there is none to come."""
        line = sys.stdin.readline()
        if not line:
            raise EOFError("the parent closed the channel")
        return json.loads(line)

    @contextmanager
    def stage(self, name: str) -> Iterator[dict[str, Any]]:
        """Announce a stage and how it ended; what is put into the dictionary goes to the parent as its facts.

        An error ends the process: the parent has its one line, the log its traceback.
        """
        facts: dict[str, Any] = {}
        self._send(stage=name, status="running")
        begin = time.monotonic()
        try:
            yield facts
        except (KunportError, AdapterError) as error:
            self._send(stage=name, status="refused", problem=error.problem, cure=error.cure)
            sys.exit(1)
        except Exception as error:
            traceback.print_exc()
            self._send(stage=name, status="failed", error=one_line(error), seconds=time.monotonic() - begin)
            sys.exit(1)
        self._send(stage=name, status="passed", seconds=time.monotonic() - begin, facts=facts)

    def progress(self, name: str, detail: str) -> None:
        """A sign of life of a stage that takes long: its limit counts from here again."""
        self._send(stage=name, status="running", detail=detail)

    def done(self) -> None:
        """Every stage has passed; how the process ends after this does not matter."""
        self._send(status="done")

    def _send(self, **event: Any) -> None:
        self._out.write(json.dumps(event) + "\n")
        self._out.flush()


def one_line(error: BaseException) -> str:
    """An error as ``Type: first line of its message``."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends: no engine outlives a killed run."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
