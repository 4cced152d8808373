"""The fuzzer's own parts: what a judge calls bad, and a worker that dies or hangs."""

import signal
import sys
import time
from pathlib import Path

import pytest
from kunport.fuzz import __main__ as command
from kunport.fuzz import run as running
from kunport.fuzz import worker
from kunport.fuzz.worker import Ending

from kunport import cli


def ends(monkeypatch, action):
    monkeypatch.setattr(cli, "main", lambda arguments: action())
    return worker.judge(Path("model"))


def test_good_ends(monkeypatch):
    assert ends(monkeypatch, lambda: 0) == Ending("report")
    assert ends(monkeypatch, lambda: 1) == Ending("unknown")
    assert ends(monkeypatch, lambda: print("kunport: No. Yes.", file=sys.stderr) or 2) == Ending("refused")


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        (lambda: 70, "exit status 70"),
        (lambda: 1 // 0, "ZeroDivisionError"),
        (lambda: print("Traceback (most recent call last)", file=sys.stderr) or 1, "a traceback"),
        (lambda: print("\x1b[31m") or 0, "steer a terminal"),
        (lambda: print("the analysis itself fails at f (KeyError: 1)") or 1, "the analysis itself fails"),
        (lambda: print("a\nb", file=sys.stderr) or 2, "not one sentence"),
        (lambda: 2, "not one sentence"),
    ],
)
def test_bad_ends(monkeypatch, action, problem):
    ending = ends(monkeypatch, action)
    assert ending.kind == "failure"
    assert problem in ending.problem


def _serve_badly(requests, folder, seed, seconds):
    while True:
        number = requests.recv()
        requests.send("")
        if number == 1:
            sys.exit(1)
        if number == 2:
            time.sleep(60)
        if number == 3:  # not before: to end takes processor time as well
            signal.setitimer(signal.ITIMER_PROF, seconds)
        while number == 3:
            pass
        requests.send(Ending("report", digest="d", memory=running.GROWN + 1 if number == 4 else 0))


def test_a_worker_that_dies_hangs_or_grows_is_replaced(monkeypatch):
    monkeypatch.setattr(running, "serve", _serve_badly)
    monkeypatch.setattr(running, "_WAIT", 10)
    endings = dict(running.run(range(6), seed=0, seconds=0.3))
    problems = {number: ending.problem for number, ending in endings.items()}
    waits, takes = "it waits for longer than 3 s", "it takes longer than 0.3 s"
    assert problems == {0: "", 1: "the process dies (1)", 2: waits, 3: takes, 4: "", 5: ""}


def test_a_real_worker_answers(tmp_path):
    endings = dict(running.run(range(3), seed=1))
    assert {ending.kind for ending in endings.values()} <= {"report", "unknown", "refused"}
    assert len({ending.digest for ending in endings.values()}) == 3
    assert all(0 <= ending.seconds < 10 and 0 < ending.memory < worker.MEMORY for ending in endings.values())


def test_the_command_counts_prints_keeps_and_goes_on(monkeypatch, capsys, tmp_path):
    asked = []

    def run(numbers, seed, seconds):
        asked.append(list(numbers))
        kinds = ("report", Ending("report", digest="d")), ("oops", Ending("failure", "oops\x1b", seconds=3.0))
        yield from zip(numbers, (ending for _, ending in kinds), strict=True)

    monkeypatch.setattr(command, "run", run)
    log, bad = tmp_path / "log", tmp_path / "bad"
    monkeypatch.setattr(sys, "argv", ["fuzz", "--first", "5", "--cases", "2", "--keep", str(bad), "--log", str(log)])
    assert command.main() == 1
    out = capsys.readouterr().out
    assert r"case 6 of seed 0: oops\x1b" in out
    assert (
        "1 ended badly; 2 cases, 2 distinct: 1 report, 0 unknown, 0 refused, 1 failure; at most 3.0 s (case 6)" in out
    )
    assert (bad / "6/config.json").is_file()
    monkeypatch.setattr(sys, "argv", ["fuzz", "--cases", "2", "--log", str(log)])
    assert command.main() == 1
    assert asked == [[5, 6], [7, 8]]
    assert "4 cases, 3 distinct: 2 report, 0 unknown, 0 refused, 2 failure" in capsys.readouterr().out
