"""Which bytes of a segment are in use: blocks and the gaps between them, by their offsets alone."""

from __future__ import annotations

from bisect import bisect_left, insort

ALIGNMENT = 64
"""Bytes; every block begins at a multiple, as vector instructions like it."""


def aligned(size: int, alignment: int = ALIGNMENT) -> int:
    """``size``, up to the next multiple."""
    return -(-size // alignment) * alignment


class Blocks:
    """Blocks in ``size`` bytes, first fit, with neighbouring gaps joined.

    Attributes:
        size: bytes in all, a multiple of `ALIGNMENT`.
        taken: start -> bytes of each block as it was asked for; it occupies them aligned.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.taken: dict[int, int] = {}
        self._gaps: list[tuple[int, int]] = [(0, size)] if size else []  # (start, bytes), by start

    def take(self, size: int) -> int | None:
        """The start of a new block, None where no gap is large enough."""
        wanted = aligned(size)
        for index, (start, gap) in enumerate(self._gaps):
            if gap >= wanted:
                self._gaps[index : index + 1] = [(start + wanted, gap - wanted)] if gap > wanted else []
                self.taken[start] = size
                return start
        return None

    def give(self, start: int) -> None:
        """Return the block that begins there."""
        end = start + aligned(self.taken.pop(start))
        index = bisect_left(self._gaps, (start, 0))
        if index < len(self._gaps) and self._gaps[index][0] == end:
            end += self._gaps.pop(index)[1]
        if index and sum(self._gaps[index - 1]) == start:
            start = self._gaps.pop(index - 1)[0]
        insort(self._gaps, (start, end - start))

    @property
    def used(self) -> int:
        """Bytes that blocks were asked for."""
        return sum(self.taken.values())

    @property
    def free(self) -> int:
        """Bytes of gaps."""
        return sum(gap for _, gap in self._gaps)

    @property
    def padding(self) -> int:
        """Bytes between the ends of blocks and the next aligned place."""
        return sum(aligned(size) - size for size in self.taken.values())
