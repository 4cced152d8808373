"""The table: a row for each cell."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from kunport.text import scientific

PASS, FAIL, NOT_APPLICABLE = "pass", "fail", "not applicable"


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one cell.

    Attributes:
        cell: its name.
        verdict: ``pass``, ``fail`` or ``not applicable``.
        error: largest difference of a log-probability (nats) from the answers that were kept.
        divergence: mean Kullback-Leibler divergence of decoded positions (nats).
        equal, total: greedy tokens.
        detail: why it failed or does not apply, or what proves that it was done.
        seconds: that it took, the engine's start included.
    """

    cell: str
    verdict: str
    error: float | None = None
    divergence: float | None = None
    equal: int = 0
    total: int = 0
    detail: str = ""
    seconds: float = 0.0

    def line(self) -> str:
        """The row as text, in the columns of `HEADER`."""
        greedy = f"{self.equal}/{self.total}" if self.total else ""
        numbers = f"{_number(self.error):>8} {_number(self.divergence):>8} {greedy:>8} {self.seconds:>6.1f}"
        return f"{self.cell:18} {self.verdict:14} {numbers}  {self.detail}".rstrip()


HEADER = f"{'cell':18} {'verdict':14} {'error':>8} {'KL':>8} {'greedy':>8} {'s':>6}"


@dataclass(slots=True)
class Matrix:
    """All rows."""

    rows: list[Row] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not any(row.verdict == FAIL for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        return {"passed": self.passed, "rows": [asdict(row) for row in self.rows]}

    def summary(self) -> str:
        counts = [(sum(row.verdict == verdict for row in self.rows), verdict) for verdict in (PASS, FAIL)]
        other = sum(row.verdict == NOT_APPLICABLE for row in self.rows)
        said = [f"{count} {verdict}" for count, verdict in counts] + ([f"{other} do not apply"] if other else [])
        return ", ".join(said)


def _number(value: float | None) -> str:
    return "" if value is None else scientific(value)
