"""What was planted, what was caught, and which module was named."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of bug in one family.

    Attributes:
        family, kind: where and what; the kind is "" for the adapter as it is.
        reason: why it does not apply, "" where it was planted.
        checks: which checks found it: ``start`` (the engine refused it), ``log-probabilities``, ``modules``.
        named: the module that was named, with its class, "" where none was.
        wanted: what should have been named.
        right: whether that is the one.
        error: largest error of a log-probability (nats), None where the engine gave none.
        detail: what was said.
    """

    family: str
    kind: str
    reason: str = ""
    checks: tuple[str, ...] = ()
    named: str = ""
    wanted: str = ""
    right: bool = False
    error: float | None = None
    detail: str = ""

    @property
    def caught(self) -> bool:
        return bool(self.checks)


@dataclass(slots=True)
class Table:
    """All rows, and what they add up to."""

    rows: list[Row] = field(default_factory=list)

    @property
    def planted(self) -> list[Row]:
        return [row for row in self.rows if row.kind and not row.reason]

    @property
    def missed(self) -> list[Row]:
        return [row for row in self.planted if not row.caught]

    @property
    def misnamed(self) -> list[Row]:
        return [row for row in self.planted if row.caught and not row.right]

    @property
    def alarms(self) -> list[Row]:
        """Adapters left as they are in which something was found."""
        return [row for row in self.rows if not row.kind and row.caught]

    @property
    def passed(self) -> bool:
        """All caught, 95 % of them with the module named, no false alarm."""
        caught = len(self.planted) - len(self.missed)
        return not self.missed and not self.alarms and len(self.misnamed) <= 0.05 * caught

    def as_dict(self) -> dict[str, Any]:
        return {"summary": self.summary(), "passed": self.passed, "rows": [asdict(row) for row in self.rows]}

    def summary(self) -> str:
        planted, missed, misnamed = len(self.planted), len(self.missed), len(self.misnamed)
        kinds = len({row.kind for row in self.planted})
        clean = sum(not row.kind for row in self.rows)
        caught = planted - missed
        return (
            f"{caught} of {planted} planted bugs of {kinds} kinds caught, "
            f"the right module named in {caught - misnamed}; "
            f"{len(self.alarms)} false alarms in {clean} adapters left as they are; "
            f"{sum(bool(row.reason) for row in self.rows)} do not apply"
        )


def line(row: Row) -> str:
    """A row in words."""
    start = f"{row.family:20}  {row.kind or 'left as it is':28}  "
    if row.reason:
        return f"{start}does not apply: {row.reason}"
    if not row.kind:
        return start + (f"FALSE ALARM: {row.detail}" if row.caught else "nothing found")
    if not row.caught:
        return f"{start}MISSED (largest error of a log-probability {row.error})"
    named = row.named if row.right else f"{row.named or 'no module'}, NOT {row.wanted}"
    return f"{start}{', '.join(row.checks):28}  {named}"
