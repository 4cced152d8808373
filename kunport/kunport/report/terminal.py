"""The finished report on the terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kunport.report.summary import headline, scope
from kunport.text import number_of_bytes, scientific, visible
from kunport.validation.report import Batch, Report


def print_report(report: Report, console: Console | None = None) -> None:
    """Print verdict, figures for each batch size, what ran, and what the verdict does not cover."""
    console = console or Console()
    style = "bold green" if report.passed else "bold red"
    console.print()
    console.print(Text.assemble((f"{report.verdict.upper()}  ", style), (visible(report.architecture), "bold")))
    console.print(Text(headline(report)))
    for reason in report.reasons:
        console.print(Text.assemble(("  ✗ ", "red"), visible(reason)))
    if report.batches:
        console.print(_table(report))
    for name, value in _lines(report):
        console.print(Text.assemble((f"{name:<10}", "dim"), visible(value)), soft_wrap=True)
    console.print(Text("\nNot covered", "dim"))
    for note in scope(report):
        console.print(Text(f"  · {visible(note)}", "dim"))


def _table(report: Report) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for title in ("batch", "max error", "mean error", "greedy", "ties", "live", "resident", "tok/s"):
        table.add_column(title, justify="right", no_wrap=True)
    for batch in report.batches:
        table.add_row(*_row(batch, report.limits.log_probability))
    return table


def _row(batch: Batch, limit: float) -> list[Text]:
    exact = batch.max_error <= limit and not batch.not_finite
    same = not batch.mismatches and not batch.repeat_differs
    return [
        Text(str(batch.size)),
        Text(scientific(batch.max_error) if not batch.not_finite else "not finite", "green" if exact else "red"),
        Text(scientific(batch.mean_error)),
        Text(f"{batch.greedy_equal}/{batch.greedy_total}", "green" if same else "red"),
        Text(str(batch.ties)),
        Text(number_of_bytes(batch.memory.live_bytes)),
        Text(number_of_bytes(batch.memory.resident_bytes)),
        Text(f"{batch.tokens_per_second:.0f}"),
    ]


def _lines(report: Report) -> list[tuple[str, str]]:
    lines = []
    if report.engine is not None:
        ran = report.engine.ran
        lines.append(("ran", f"{ran.name} of {ran.module} ({ran.file})"))
    if report.graph is not None:
        relative = scientific(report.graph.max_relative)
        lines.append(
            ("graph", f"its logits are off by {relative} of the largest ({report.limits.graph:.0e} is allowed)")
        )
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    return [*lines, ("versions", versions)]
