"""Dimensions of a shape as contracts write them: names, numbers, and sums such as ``sequences + 1``, ``2 * size``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_TERM = re.compile(r"(?P<sign>[+-]?) *(?:(?P<factor>\d+) *\* *)?(?:(?P<name>[a-z_]+)|(?P<number>\d+)) *")


@dataclass(frozen=True, slots=True)
class Dimension:
    """``sum(factor * size of name) + constant``; ``name`` is the name where it is nothing but one, else ""."""

    text: str
    terms: tuple[tuple[int, str], ...]
    constant: int
    name: str

    def size(self, sizes: Mapping[str, int]) -> int | None:
        """Its size; None where a name has none yet."""
        if any(name not in sizes for _, name in self.terms):
            return None
        return sum(factor * sizes[name] for factor, name in self.terms) + self.constant

    def solve(self, size: int, sizes: Mapping[str, int]) -> tuple[str, int] | None:
        """The one name without a size, and the size that makes the dimension ``size``; None where it has no answer."""
        unknown = [(factor, name) for factor, name in self.terms if name not in sizes]
        if len(unknown) != 1:
            return None
        ((factor, name),) = unknown
        rest = size - self.constant - sum(each * sizes[known] for each, known in self.terms if known in sizes)
        return (name, rest // factor) if rest % factor == 0 and rest // factor >= 0 else None


def parse_shape(text: str) -> tuple[Dimension, ...]:
    """The dimensions of ``"sequences + 1, heads"``.

    Raises:
        ValueError: a dimension is no sum of sizes and numbers.
    """
    return tuple(_parse(part.strip()) for part in text.split(",") if part.strip())


def _parse(text: str) -> Dimension:
    terms: list[tuple[int, str]] = []
    constant = 0
    position = 0
    while position < len(text):
        term = _TERM.match(text, position)
        if term is None or (position > 0 and not term["sign"]):
            raise ValueError(f"{text!r} is no dimension.")
        position = term.end()
        sign = -1 if term["sign"] == "-" else 1
        factor = sign * int(term["factor"] or 1)
        if term["name"]:
            terms.append((factor, term["name"]))
        else:
            constant += factor * int(term["number"])
    return Dimension(text, tuple(terms), constant, text if terms == [(1, text)] else "")
