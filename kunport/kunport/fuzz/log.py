"""A log of cases, a line each: what ran before an interruption need not run again, and counts come from it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from kunport.fuzz.worker import Ending
from kunport.text import number_of_bytes


class Log:
    """Endings by number of case, kept in a file where one is named.

    Attributes:
        next: the number after the last case that ran, None where none did.
    """

    def __init__(self, path: Path | None, seed: int) -> None:
        self.path, self.seed = path, seed
        self.next: int | None = None
        self.kinds: Counter[str] = Counter()
        self._digests: set[str] = set()
        self._slowest, self._largest = (0.0, -1), (0, -1)
        if path is not None and path.is_file():
            for line in path.read_text().splitlines():
                entry = json.loads(line)
                if entry.pop("seed") == seed:
                    self._count(entry.pop("case"), Ending(**entry))

    def add(self, number: int, ending: Ending) -> None:
        """Count a case and write it down."""
        self._count(number, ending)
        if self.path is not None:
            entry = {"seed": self.seed, "case": number, **asdict(ending), "seconds": round(ending.seconds, 3)}
            with self.path.open("a") as file:
                file.write(json.dumps(entry) + "\n")

    def _count(self, number: int, ending: Ending) -> None:
        self.next = max(number + 1, self.next or 0)
        self.kinds[ending.kind] += 1
        self._digests.add(ending.digest or str(number))
        self._slowest = max(self._slowest, (ending.seconds, number))
        self._largest = max(self._largest, (ending.memory, number))

    @property
    def summary(self) -> str:
        """Counts by ending, and the costliest cases."""
        kinds = ", ".join(f"{self.kinds[kind]:,} {kind}" for kind in ("report", "unknown", "refused", "failure"))
        slow, large = f"{self._slowest[0]:.1f} s (case {self._slowest[1]})", number_of_bytes(self._largest[0])
        cases = f"{self.kinds.total():,} cases, {len(self._digests):,} distinct"
        return f"{cases}: {kinds}; at most {slow} and {large} (case {self._largest[1]})"
