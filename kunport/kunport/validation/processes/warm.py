"""Processes that begin with their libraries imported: a fork takes no time, an import of vLLM ten seconds.

For one model it makes no difference; for many, most of the time. A *server* imports the libraries of one kind of
process and then forks itself for every request. Nothing of a model is ever loaded in it, so that each fork starts
as clean as a process of its own would.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from kunport.errors import KunportError
from kunport.validation.processes.environment import (
    engine_environment,
    own_modules,
    reference_environment,
    threads_per_process,
)

# What each kind of process imports. The reference stays free of vLLM, which adds configurations to Transformers.
_REFERENCE, _ENGINE = "kunport.validation.reference", "kunport.validation.engine"
IMPORTS = {
    _REFERENCE: ("torch", "transformers.modeling_utils", "transformers.masking_utils"),
    _ENGINE: ("torch", "transformers.modeling_utils", "vllm", "vllm.entrypoints.llm"),
}
# Modules whose processes import what another's do: forks of the same server.
ALIKE = {
    "kunport.validation.throughput": _ENGINE,
    "kunport.validation.selftest.engine": _ENGINE,
    "kunport.validation.invariance.engine": _ENGINE,
    "kunport.validation.modules.engine": _ENGINE,
    "kunport.validation.modules.reference": _REFERENCE,
}
_TICK = 0.05  # seconds between looks at the forks
_serving: dict[str, Server] = {}


class Server:
    """A process that imports some libraries and then forks itself on request, and its socket's place."""

    def __init__(self, place: Path, libraries: Sequence[str], environment: Mapping[str, str]) -> None:
        self.place, self._log = place, place.with_suffix(".log")
        command = [sys.executable, "-m", "kunport.validation.processes.server", str(place), *libraries]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)

    def connect(self) -> socket.socket:
        """A connection; the server may still be importing.

        Raises:
            KunportError: the server has ended.
        """
        connection = socket.socket(socket.AF_UNIX)
        while self.process.poll() is None:
            with suppress(FileNotFoundError):
                connection.connect(str(self.place))
                return connection
            time.sleep(_TICK)
        connection.close()
        said = self._log.read_text(errors="replace").strip().splitlines()[-1:] if self._log.is_file() else []
        raise KunportError(
            f"A server of processes ended with exit status {self.process.returncode}{': '.join(['', *said])}.",
            "Start it again.",
        )

    def close(self) -> None:
        """End the server, and with it its forks."""
        self.process.kill()
        self.process.wait()


@contextmanager
def warm() -> Iterator[None]:
    """Processes of `IMPORTS` and `ALIKE` that start inside begin as forks of a server, which ends with the context."""
    if _serving:  # a context around this one has them
        yield
        return
    threads = threads_per_process(2)
    # What libraries read from the environment when they are imported must be there already.
    environments = {_REFERENCE: reference_environment(threads), _ENGINE: engine_environment(None, threads)}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kunport-")))
        for number, (module, environment) in enumerate(environments.items()):
            environment = own_modules(environment, folder / f"{number}-modules")
            _serving[module] = Server(folder / str(number), IMPORTS[module], environment)
            stack.callback(_serving[module].close)
            stack.callback(_serving.pop, module)
        for module, other in ALIKE.items():
            _serving[module] = _serving[other]
            stack.callback(_serving.pop, module)
        yield


class Fork:
    """A fork of a server, as `subprocess.Popen` shows a process: ``pid``, ``stdin``, ``stdout``, ``wait``."""

    def __init__(self, module: str, environment: Mapping[str, str], log: IO[bytes]) -> None:
        self._returncode: int | None = None
        self._connection = _serving[module].connect()
        its_input, mine = os.pipe()
        yours, its_output = os.pipe()
        self.stdin, self.stdout = os.fdopen(mine, "wb"), os.fdopen(yours, "rb", buffering=0)
        request = json.dumps({"module": module, "environment": dict(environment), "folder": str(Path.cwd())}).encode()
        self._connection.sendall(len(request).to_bytes(8, "big"))
        socket.send_fds(self._connection, [request[:1]], [its_input, its_output, log.fileno()])
        self._connection.sendall(request[1:])
        os.close(its_input)
        os.close(its_output)
        self._answers = self._connection.makefile()
        self.pid = int(self._answers.readline())

    def abandon(self) -> None:
        """Close the connection: the server ends the fork."""
        self._answers.close()
        self._connection.close()

    def wait(self, timeout: float | None = None) -> int:
        """Exit status as `subprocess.Popen.wait` gives it. Raises TimeoutExpired as that does."""
        if self._returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            # A server that is gone has taken its forks with it.
            self._returncode = int(self._answers.readline() or -signal.SIGKILL)
            self.abandon()
        return self._returncode


def is_warm(module: str) -> bool:
    """Whether processes that run this module begin as forks now."""
    return module in _serving
