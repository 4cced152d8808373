"""``python -m kunport.validation.processes.server PLACE LIBRARY ...``: import, then fork at every request.

The other side of `kunport.validation.processes.warm`. PLACE is the path of a Unix socket. A request is the length of a
JSON object (8 bytes, big-endian) and the object: ``module`` to run as ``python -m`` would, ``environment``, ``folder``;
with it come the descriptors of standard input, output and error. The answer is the fork's process id and, when it
has ended, its exit status, a line each. Whoever closes the connection earlier ends the fork.
"""

from __future__ import annotations

import json
import os
import runpy
import select
import signal
import socket
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from kunport.validation.processes.child import die_with_parent

_TICK = 0.05  # seconds between looks at the forks


def main() -> None:
    die_with_parent()
    place, *libraries = sys.argv[1:]
    for library in libraries:
        import_module(library)
    _serve(Path(place))


def _serve(place: Path) -> None:
    """Forks for every connection and tells it the fork's process id and, later, its exit status."""
    forks: dict[int, socket.socket] = {}
    with socket.socket(socket.AF_UNIX) as listener:
        # Under another name until it listens, so that no one connects too early.
        listener.bind(f"{place}.new")
        listener.listen()
        Path(f"{place}.new").rename(place)
        while True:
            for ready in select.select([listener, *forks.values()], [], [], _TICK)[0]:
                if ready is listener:
                    connection, _ = listener.accept()
                    pid = _fork(connection, [listener, *forks.values()])
                    forks[pid] = connection
                    connection.sendall(f"{pid}\n".encode())
                else:  # nobody speaks twice: whoever asked for this fork is gone
                    (gone,) = (pid for pid, each in forks.items() if each is ready)
                    for kill in (os.killpg, os.kill):  # it may not lead its group yet
                        with suppress(ProcessLookupError):
                            kill(gone, signal.SIGKILL)
                    os.waitpid(gone, 0)
                    forks.pop(gone).close()
            for pid in list(forks):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    with suppress(BrokenPipeError), forks.pop(pid) as connection:
                        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _fork(connection: socket.socket, others: list[socket.socket]) -> int:
    size = int.from_bytes(_receive(connection, 8), "big")
    first, descriptors, _, _ = socket.recv_fds(connection, 1, 3)
    request = json.loads(first + _receive(connection, size - 1))
    pid = os.fork()
    if pid:
        for descriptor in descriptors:
            os.close(descriptor)
        return pid
    os.setsid()
    for each in (connection, *others):
        each.close()
    for standard, descriptor in enumerate(descriptors):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    os._exit(_run(request["module"]))


def _run(module: str) -> int:
    """Runs a module as ``python -m`` would; its exit status."""
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError("the connection ended inside a request")
        data += part
    return data


if __name__ == "__main__":
    main()
