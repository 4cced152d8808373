"""Whether the layers of a stack run once each, in order, each on what the one before it makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from kunport_codegen.graph import Frame, Location, refs

from kunport.variants.model import Model

Run = tuple[int, Frame]


def irregular_runs(model: Model) -> Iterator[tuple[str, Location]]:
    """What the layers of a stack do otherwise, and where."""
    for stack, runs in model.runs.items():
        numbers = [number for number, _ in runs]
        again = next((frame for at, (number, frame) in enumerate(runs) if number in numbers[:at]), None)
        if again is not None:
            yield f"layers of {stack} that run more than once", again.where
        elif numbers != sorted(numbers):
            yield f"layers of {stack} that run in the order {' '.join(map(str, numbers))}", runs[0][1].where
        else:
            yield from _gaps(model, stack, runs)


def _gaps(model: Model, stack: str, runs: list[Run]) -> Iterator[tuple[str, Location]]:
    """A layer that does not read what the one before it makes."""
    for (before, earlier), (number, frame) in pairwise(runs):
        made = set(refs(earlier.output))
        if not _reaches(model, refs(list(frame.inputs.values())), made):
            yield f"layer {number} of {stack} that reads nothing of layer {before}", frame.where


def _reaches(model: Model, starts: Iterable[int], wanted: set[int]) -> bool:
    """Whether a tensor is one of some, or made of one outside of the stack's layers."""
    pending, seen = list(starts), set[int]()
    while pending:
        current = pending.pop()
        if current in wanted:
            return True
        node = model.index.nodes.get(current)
        if node is None or current in seen or model.still(current):
            continue
        seen.add(current)
        pending.extend(model.reads(node))
    return False
