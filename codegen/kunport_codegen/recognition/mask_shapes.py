"""What kind of attention mask a table of seen keys is: causal, a sliding window, or chunks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kunport_codegen.expression import Scalar, unwrap
from kunport_codegen.facts import Number
from kunport_codegen.graph import Node

from .index import combine, number

# Operators by which positions are held against a number, or counted by one.
_AGAINST = {"lt", "le", "gt", "ge", "eq", "ne", "add", "sub", "tril", "triu", "floor_divide", "remainder"}
PART = "part"
Seen = np.ndarray[Any, Any]


@dataclass(slots=True)
class Mask:
    """``kind`` and ``window`` as in the graph's ``mask`` operator; ``covered`` are nodes that others may share.

    ``part`` is a mask that is none of these on its own. ``kept [query, key]`` says what a mask made by hand shows.
    """

    kind: str
    window: Number | None = None
    covered: list[Node] = field(default_factory=list)
    kept: Seen | None = None


def band(kept: Seen) -> int | None:
    """How many of the last keys each query sees in a square ``[query, key]``, None where it sees others."""
    seen, size = int(kept[-1].sum()), len(kept)
    shown = np.tri(size, dtype=bool) & ~np.tri(size, k=-seen, dtype=bool)
    return seen if np.array_equal(kept, shown) else None


def chunk(kept: Seen) -> int | None:
    """How many tokens a chunk has where each query sees the keys of its own up to itself; None of other masks."""
    size = len(kept)
    cut = np.flatnonzero(~kept[:, 0])
    if not len(cut) or cut[0] == 0:
        return None
    of = np.arange(size) // cut[0]
    shown = np.tri(size, dtype=bool) & (of[:, None] == of[None, :])
    return int(cut[0]) if np.array_equal(kept, shown) else None


def named(nodes: list[Node], seen: int) -> Number | None:
    """The number that made a mask of a window; one with an expression before a plain one."""
    found = [number(arg) for each in nodes for arg in (*each.args, *each.kwargs.values())]
    scalars = [each for each in found if isinstance(each, Scalar)]
    by = giving(scalars, seen)
    if by is not None or any(each is not None and abs(unwrap(each)) == seen for each in found):
        return by or seen
    diagonals = [number(arg) for each in nodes if each.op == "triu" for arg in (*each.args, *each.kwargs.values())]
    return seen if any(each is not None and unwrap(each) == 1 - seen < 0 for each in diagonals) else None


def giving(numbers: list[Scalar], seen: int) -> Number | None:
    """The window by the first number that gives it: itself or its negative, or the distance to the furthest key."""
    for each in numbers:
        if abs(unwrap(each)) == seen:
            return each if unwrap(each) == seen else combine("neg", each)
    for each in numbers:
        if abs(unwrap(each)) == seen - 1 > 0:
            return combine("add", each, 1) if unwrap(each) > 0 else combine("sub", 1, each)
    return None


def reaches_further(nodes: list[Node], size: int) -> bool:
    """Whether positions are held against a number so large that what it hides would not show among ``size`` keys."""
    compared = (number(arg) for node in nodes if node.op in _AGAINST for arg in (*node.args, *node.kwargs.values()))
    return any(each is not None and abs(unwrap(each)) >= size - 1 for each in compared)
