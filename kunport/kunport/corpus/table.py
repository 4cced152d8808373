"""The rows of a sweep as text."""

from __future__ import annotations

from collections import Counter

from kunport.corpus.equality import Row

_WIDTH = 90


def line(row: Row) -> str:
    """A row, and the first thing that is not equal in it."""
    without, cached = _cell(row.prefill), _cell(row.decode) if row.decode else "no cache"
    reasons = [each for each in (*row.prefill, *row.decode) if isinstance(each, str)] + row.unknowns
    numbers = f"{row.readings:5} {len(row.unknowns):3} {row.seconds:6.1f}"
    return f"{row.verdict:8} {row.case:28} {without:18} {cached:18} {numbers}  {''.join(reasons[:1])[:_WIDTH]}".rstrip()


HEADER = f"{'verdict':8} {'case':28} {'without a cache':18} {'with a cache':18} reads unk      s"


def _cell(results: list[float | str]) -> str:
    return " ".join(f"{each:.1e}" if isinstance(each, float) else "-" for each in results)


def total(rows: list[Row]) -> str:
    """How many rows have which verdict, and how many of the equal ones decode with a cache."""
    counts = Counter(row.verdict for row in rows)
    decoding = [row for row in rows if row.decode]
    equal = sum(row.verdict == "equal" and all(isinstance(each, float) for each in row.decode) for row in decoding)
    shares = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("equal", "unknown", "failed", "differs"))
    return f"{counts['equal']} of {len(rows)} equal ({shares}); {equal} of {len(decoding)} with a cache"
