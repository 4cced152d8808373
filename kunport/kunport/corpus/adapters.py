"""What becomes of a case from its source to the real engine: a row of the table of adapters."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import kunport
from kunport.errors import KunportError
from kunport.porting import Port

PASSED, REFUSED, WRONG = "passed", "refused", "wrong"
_WIDTH = 110
HEADER = f"{'verdict':8} {'case':28} {'error':>8} {'greedy':>9} {'lines':>5} {'s':>6}"


@dataclass(frozen=True, slots=True)
class Row:
    """One case.

    Attributes:
        case: its name.
        verdict: ``passed``, ``refused`` (by name, before anything is loaded) or ``wrong``: it was said to run, and
            computes something else, or ended before it had.
        error: the largest error of a log-probability (nats), over all batches; None where there is none.
        greedy: how many generated tokens equal the model's, of how many.
        lines: of the adapter's model file.
        seconds: that all of it took.
        reason: the first, where it did not pass.
    """

    case: str
    verdict: str
    error: float | None = None
    greedy: tuple[int, int] = (0, 0)
    lines: int = 0
    seconds: float = 0.0
    reason: str = ""

    def __str__(self) -> str:
        error = "-" if self.error is None else f"{self.error:.1e}"
        greedy = f"{self.greedy[0]}/{self.greedy[1]}"
        numbers = f"{error:>8} {greedy:>9} {self.lines:5} {self.seconds:6.1f}"
        return f"{self.verdict:8} {self.case:28} {numbers}  {self.reason[:_WIDTH]}".rstrip()


def port(case: str, output: Path) -> Row:
    """Port a case's tiny model, and say what became of it."""
    begin = time.monotonic()
    try:
        done = kunport.port(case, output)
    except KunportError as error:  # said in a sentence, as a user would see it
        return Row(case, REFUSED, seconds=time.monotonic() - begin, reason=error.problem)
    return _row(case, done, time.monotonic() - begin)


def _row(case: str, done: Port, seconds: float) -> Row:
    if done.report is None or done.adapter is None:
        return Row(case, REFUSED, seconds=seconds, reason=str(next(iter(done.description.unknowns), "")))
    batches = done.report.batches
    source = done.adapter / f"{done.adapter.name.replace('-', '_')}.py"
    return Row(
        case,
        PASSED if done.passed else WRONG,
        error=max((batch.max_error for batch in batches), default=None),
        greedy=(sum(batch.greedy_equal for batch in batches), sum(batch.greedy_total for batch in batches)),
        lines=source.read_text().count("\n") if source.exists() else 0,
        seconds=seconds,
        reason="" if done.passed else next(iter(done.report.reasons), "").partition("\n")[0],
    )


def total(rows: list[Row]) -> str:
    """How many passed, of all and of the cases that are an architecture's defaults."""
    counts = Counter(row.verdict for row in rows)
    defaults = [row for row in rows if ":" not in row.case]
    passed = sum(row.verdict == PASSED for row in defaults)
    kinds = ", ".join(f"{counts[verdict]} {verdict}" for verdict in (PASSED, REFUSED, WRONG))
    return f"{counts[PASSED]} of {len(rows)} passed ({kinds}); of {len(defaults)} defaults {passed}"
