"""Forks of a server behave as processes of their own do, also when they misbehave."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kunport.errors import KunportError
from kunport.validation import report
from kunport.validation.processes import warm
from kunport.validation.processes.supervisor import Outcome, Supervised
from kunport.validation.processes.warm import Fork, Server

HERE = Path(__file__).parent
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("server") / "socket", ["json", "decimal"], ENVIRONMENT)
    yield server
    server.close()


@pytest.fixture(autouse=True)
def serving(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(warm._serving, "misbehaving", server)


def start(how: str, folder: Path, stop: threading.Event | None = None) -> Supervised:
    return Supervised(
        "child",
        [sys.executable, "-m", "misbehaving"],
        environment=ENVIRONMENT | {"MISBEHAVE": how},
        log=folder / "log",
        stage_seconds=300.0,
        on_stage=[].append,
        stop=stop,
    )


def run(how: str, folder: Path) -> Outcome:
    with start(how, folder) as process:
        assert isinstance(process._process, Fork)
        process.send({"answer": 42})
        return process.follow()


def test_a_fork_is_a_child_of_the_server_with_its_libraries(tmp_path: Path, server: Server) -> None:
    with start("hang", tmp_path) as process:
        process.send(None)
        process.follow(until="first")
        status = Path(f"/proc/{process.group}/status").read_text()
        assert f"PPid:\t{server.process.pid}\n" in status
        assert os.getpgid(process.group) == process.group


def test_a_fork_that_behaves(tmp_path: Path) -> None:
    outcome = run("behave", tmp_path)
    assert outcome.complete
    assert outcome.facts["first"]["echo"] == {"answer": 42}
    assert "libraries print what they like" in outcome.log


@pytest.mark.parametrize(
    ("how", "status", "detail"),
    [
        ("raise", report.FAILED, "ValueError: the second line"),
        ("crash", report.CRASHED, "SIGSEGV"),
        ("exit", report.CRASHED, "exit status 7"),
        ("exit as if all were well", report.CRASHED, "exit status 0"),
        ("be killed", report.KILLED, "memory"),
    ],
)
def test_what_goes_wrong_is_told_and_the_next_fork_is_well(tmp_path: Path, how: str, status: str, detail: str) -> None:
    outcome = run(how, tmp_path)
    assert outcome.stages[1].status == status
    assert detail in outcome.stages[1].detail
    assert run("behave", tmp_path).complete


def test_forks_run_side_by_side(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with start("hang", tmp_path) as hanging:
        hanging.send(None)
        hanging.follow(until="first")
        assert run("behave", tmp_path / "other").complete
        os.killpg(hanging.group, 0)


def test_whoever_asked_for_a_fork_takes_it_along(tmp_path: Path) -> None:
    process = start("hang", tmp_path)
    process.send(None)
    process.follow(until="first")
    assert isinstance(process._process, Fork)
    process._process.abandon()
    assert gone(process.group)


def test_a_server_that_ends_takes_its_forks_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Server(tmp_path / "socket", [], ENVIRONMENT)
    monkeypatch.setitem(warm._serving, "misbehaving", own)
    with start("hang", tmp_path) as process:
        process.send(None)
        process.follow(until="first")
        threading.Timer(0.5, own.close).start()
        outcome = process.follow()
    assert outcome.stages[-1].status == report.KILLED
    with pytest.raises(KunportError, match="A server of processes ended with exit status -9"):
        start("behave", tmp_path)


def test_a_server_that_cannot_import_says_so(tmp_path: Path) -> None:
    server = Server(tmp_path / "socket", ["no_such_library"], ENVIRONMENT)
    with pytest.raises(KunportError, match="exit status 1"):
        server.connect()


def gone(group: int) -> bool:
    for _ in range(200):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_outside_of_the_context_processes_are_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "_serving", {})
    modules = [*warm.IMPORTS, *warm.ALIKE]
    with warm.warm():
        assert all(map(warm.is_warm, modules))
        with warm.warm():
            pass
        assert all(map(warm.is_warm, modules))
        servers = [warm._serving[module] for module in warm.IMPORTS]
    assert not any(map(warm.is_warm, modules))
    assert [server.process.returncode for server in servers] == [-signal.SIGKILL] * len(servers)
