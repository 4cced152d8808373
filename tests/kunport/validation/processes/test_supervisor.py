"""What happens to a process becomes a stage: real processes that crash, hang, are killed and lie."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from kunport.validation import report
from kunport.validation.processes.supervisor import Outcome, Supervised
from kunport.validation.report import Stage

CHILD = str(Path(__file__).with_name("misbehaving.py"))


def start(how: str, folder: Path, seen: list[Stage] | None = None, stop: threading.Event | None = None) -> Supervised:
    return Supervised(
        "child",
        [sys.executable, CHILD, how],
        environment=dict(os.environ),
        log=folder / "log",
        stage_seconds=300.0,
        on_stage=[].append if seen is None else seen.append,
        stop=stop,
    )


def run(how: str, folder: Path) -> Outcome:
    with start(how, folder) as process:
        process.send({"answer": 42})
        return process.follow()


def test_a_process_that_behaves(tmp_path: Path) -> None:
    seen: list[Stage] = []
    with start("behave", tmp_path, seen) as process:
        process.send({"answer": 42})
        outcome = process.follow()
    assert outcome.complete
    assert outcome.facts["first"]["echo"] == {"answer": 42}
    assert [(stage.name, stage.status) for stage in seen] == [
        ("first", "running"),
        ("first", "passed"),
        ("second", "running"),
        ("second", "passed"),
    ]
    assert [stage.name for stage in outcome.stages] == ["first", "second"]
    assert outcome.stages[0].detail == "first is done"
    assert "libraries print what they like" in outcome.log


@pytest.mark.parametrize(
    ("how", "status", "detail"),
    [
        ("raise", report.FAILED, "ValueError: the second line"),
        ("raise without a message", report.FAILED, "AssertionError"),
        ("crash", report.CRASHED, "SIGSEGV"),
        ("abort", report.CRASHED, "SIGABRT"),
        ("exit", report.CRASHED, "exit status 7"),
        ("exit as if all were well", report.CRASHED, "exit status 0"),
        ("be killed", report.KILLED, "memory"),
        ("exhaust the memory", report.FAILED, "MemoryError"),
    ],
)
def test_what_goes_wrong_is_the_stage_in_which_it_does(tmp_path: Path, how: str, status: str, detail: str) -> None:
    outcome = run(how, tmp_path)
    assert not outcome.complete
    assert [stage.name for stage in outcome.stages] == ["first", "second"]
    assert outcome.stages[1].status == status
    assert detail in outcome.stages[1].detail
    assert "\n" not in outcome.stages[1].detail
    assert "is not told" not in outcome.stages[1].detail


def test_a_traceback_is_in_the_log_only(tmp_path: Path) -> None:
    outcome = run("raise", tmp_path)
    assert any("Traceback" in line for line in outcome.log)


def test_a_hang_ends_at_the_limit(tmp_path: Path) -> None:
    with start("hang", tmp_path) as process:
        process.send(None)
        process.follow(until="first")  # starting may take its time
        process.stage_seconds = 4.0
        begin = time.monotonic()
        outcome = process.follow()
    assert outcome.stages[-1].status == report.TIMED_OUT
    assert outcome.stages[-1].name == "second"
    assert "4 s" in outcome.stages[-1].detail
    assert time.monotonic() - begin < 30


def test_slow_is_not_hung(tmp_path: Path) -> None:
    seen: list[Stage] = []
    with start("be slow", tmp_path, seen) as process:
        process.send(None)
        process.follow(until="first")
        process.stage_seconds = 12.0
        outcome = process.follow()
    assert outcome.complete
    assert outcome.stages[-1].seconds is not None
    assert outcome.stages[-1].seconds > process.stage_seconds
    assert "step 3" in [stage.detail for stage in seen if stage.status == "running"]


def test_what_a_hanging_process_started_ends_with_it(tmp_path: Path) -> None:
    with start("hang with children", tmp_path) as process:
        process.send(None)
        process.follow(until="first")
        process.stage_seconds = 4.0
        group = process.group
        process.follow()
    with pytest.raises(ProcessLookupError):
        _wait_for_the_end_of(group)


def _wait_for_the_end_of(group: int) -> None:
    for _ in range(100):
        os.killpg(group, 0)
        time.sleep(0.05)


def test_leaving_between_stages_is_a_crash(tmp_path: Path) -> None:
    outcome = run("leave early", tmp_path)
    assert not outcome.complete
    assert (outcome.stages[-1].name, outcome.stages[-1].status) == ("between stages", report.CRASHED)


def test_a_process_that_does_not_start(tmp_path: Path) -> None:
    with Supervised(
        "child",
        [sys.executable, "-m", "no_such_module"],
        environment=dict(os.environ),
        log=tmp_path / "log",
        stage_seconds=300,
        on_stage=lambda stage: None,
    ) as process:
        process.send({})
        outcome = process.follow()
    assert (outcome.stages[0].name, outcome.stages[0].status) == ("start", report.CRASHED)
    assert "no_such_module" in outcome.log[-1]


def test_hanging_after_the_end_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kunport.validation.processes.supervisor._GRACE", 0.5)
    begin = time.monotonic()
    assert run("hang after the end", tmp_path).complete
    assert time.monotonic() - begin < 30


def test_input_that_is_to_blame_is_told_apart(tmp_path: Path) -> None:
    outcome = run("refuse", tmp_path)
    assert outcome.refusal is not None
    assert (outcome.refusal.problem, outcome.refusal.cure) == ("The weights are missing.", "Download them.")
    assert outcome.stages[-1].status == report.FAILED


def test_stopping_ends_a_process_soon(tmp_path: Path) -> None:
    stop = threading.Event()
    with start("hang", tmp_path, stop=stop) as process:
        process.send(None)
        threading.Timer(1.0, stop.set).start()
        outcome = process.follow()
    assert outcome.stages[-1].status == report.STOPPED


def test_turns_are_asked_for_one_by_one(tmp_path: Path) -> None:
    with start("turns", tmp_path) as process:
        process.send(None)
        for turn in (3, 5):
            process.send(turn)
            assert process.follow(until=f"turn {turn}").facts[f"turn {turn}"] == {"doubled": 2 * turn}
        process.send(None)
        assert process.follow().complete


def test_a_process_dies_with_the_one_that_started_it(tmp_path: Path) -> None:
    parent = f"""
import os, sys, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_supervisor import start
process = start("hang", Path({str(tmp_path)!r}))
process.send(None)
process.follow(until="first")
print(process.group, flush=True)
time.sleep(3600)
"""
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        group = int(killed.stdout.readline())
        os.killpg(group, 0)  # it is there
        killed.send_signal(signal.SIGKILL)
    with pytest.raises(ProcessLookupError):
        _wait_for_the_end_of(group)
