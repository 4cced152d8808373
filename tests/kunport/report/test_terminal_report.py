"""What the terminal shows, with and without a terminal."""

from __future__ import annotations

import io

from kunport.report.progress import StageDisplay
from kunport.report.terminal import print_report
from kunport.validation.report import Mismatch, Report, Stage
from rich.console import Console
from sample_reports import sample_report


def printed(report: Report, width: int = 80) -> str:
    stream = io.StringIO()
    print_report(report, Console(file=stream, width=width))
    return stream.getvalue()


def test_a_pass_shows_its_figures_in_eighty_columns() -> None:
    text = printed(sample_report())
    for needed in (
        "PASS",
        "Olmo2ForCausalLM",
        "4.0e-06",
        "4/4",
        "8/8",
        "117 KiB",
        "900 MiB",
        "40",
        "2.0e-08",
        "Kunlun",
    ):
        assert needed in text, needed
    assert "…" not in text
    assert "\x1b" not in text


def test_a_failure_shows_each_reason() -> None:
    report = sample_report()
    report.reasons = ["The adapter did not run.", "Batch of 2: all is wrong."]
    report.batches[1].mismatches = [Mismatch(0, 1, 2, 3, 0.5)]
    report.batches[1].not_finite = 7
    text = printed(report)
    for needed in ("FAIL", "2 reasons", "✗ The adapter did not run.", "✗ Batch of 2: all is wrong.", "not finite"):
        assert needed in text, needed


def test_nothing_but_a_crash() -> None:
    report = sample_report()
    report.batches, report.engine, report.graph = [], None, None
    report.reasons = ["engine, stage 'load': crashed."]
    report.top = 64
    text = printed(report)
    assert "The model graph was not executed" in text
    assert "64 most likely" in text


def test_hostile_strings_do_not_reach_the_terminal() -> None:
    report = sample_report()
    report.architecture = "\x1b[2J\x07[bold]Evil[/bold]\u202e\n"
    report.reasons = ["\x1b]0;title\x07"]
    report.notes = ["[red]\x9b31m"]
    text = printed(report)
    assert not set("\x1b\x07\x9b\u202e") & set(text)
    assert "[bold]Evil[/bold]" in text
    assert "[red]" in text


def test_without_a_terminal_each_stage_is_a_line_when_it_ends() -> None:
    stream = io.StringIO()
    with StageDisplay(Console(file=stream, width=80)) as show:
        show(Stage("reference", "load", "running"))
        assert stream.getvalue() == ""
        show(Stage("reference", "load", "passed", 1.25, "Olmo2ForCausalLM"))
        show(Stage("engine", "batch 4", "timed out", 125.0, "no end after 120 s \x1b[31m"))
        show(Stage("engine", "never announced", "stopped", 0.1))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[0].split() == ["✓", "reference", "load", "1.2", "s", "Olmo2ForCausalLM"]
    assert "2 min 05 s" in lines[1]
    assert "timed out: no end after 120 s \\x1b[31m" in lines[1]
    assert lines[2].startswith("–")
    assert "\x1b" not in stream.getvalue()


def test_on_a_terminal_running_stages_turn_and_go() -> None:
    stream = io.StringIO()
    with StageDisplay(Console(file=stream, force_terminal=True, width=80)) as show:
        show(Stage("engine", "load", "running"))
        show._progress.refresh()
        assert "load" in stream.getvalue()
        show(Stage("engine", "load", "running", detail="3 of 8"))
        show._progress.refresh()
        assert "3 of 8" in stream.getvalue()
        show(Stage("engine", "load", "passed", 1.0))
        assert show._progress.task_ids == []
    assert "✓" in stream.getvalue()
