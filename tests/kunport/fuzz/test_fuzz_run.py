"""The fuzzer's own parts: what a judge calls bad, and a worker that dies or hangs."""

import sys
import time
from pathlib import Path

import pytest
from kunport.fuzz import __main__ as command
from kunport.fuzz import run as running
from kunport.fuzz import worker

from kunport import cli


def ends(monkeypatch, action):
    monkeypatch.setattr(cli, "main", lambda arguments: action())
    return worker.judge(Path("model"))


def test_good_ends(monkeypatch):
    assert ends(monkeypatch, lambda: 0) == ""
    assert ends(monkeypatch, lambda: print("kunport: No. Yes.", file=sys.stderr) or 2) == ""


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
    assert problem in ends(monkeypatch, action)


def _serve_badly(requests, folder, seed):
    while True:
        number = requests.recv()
        requests.send("")
        if number == 1:
            sys.exit(1)
        if number == 2:
            time.sleep(60)
        requests.send("")


def test_a_worker_that_dies_or_hangs_is_replaced(monkeypatch):
    monkeypatch.setattr(running, "serve", _serve_badly)
    answers = dict(running.run(range(4), seed=0, seconds=2.0))
    assert answers == {0: "", 1: "the process dies", 2: "it takes longer than 2 s", 3: ""}


def test_the_command_counts_prints_and_keeps(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(command, "run", lambda numbers, seed, seconds: [(5, ""), (6, "oops\x1b")])
    monkeypatch.setattr(sys, "argv", ["fuzz", "--first", "5", "--cases", "2", "--keep", str(tmp_path / "bad")])
    assert command.main() == 1
    out = capsys.readouterr().out
    assert r"case 6 of seed 0: oops\x1b" in out
    assert "2 cases in 0 s, 1 ended badly" in out
    assert (tmp_path / "bad/6/modeling_case.py").is_file()
