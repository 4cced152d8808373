"""Which elements of one tensor another holds, and where: told by following numbered elements through the operators.

Facts such as the packing of a projection rest on where elements go. Each source is filled with the numbers of its
elements, and the operators between are evaluated on these; what a fact of its own states (a norm, a rotation, a bias)
counts as leaving each element at its place.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass

import numpy as np
from kunport_codegen.expression import unwrap
from kunport_codegen.graph import Node, Ref
from kunport_codegen.recognition.evaluate import UnevaluableError, evaluate
from kunport_codegen.recognition.rules import Array

from kunport.variants.model import Model

# Operators that move elements, or make a tensor that they are moved to. Numbers may also come through arithmetic
# unchanged, at a few positions, which does not make that a move.
_MOVES = frozenset(
    (
        *("getitem", "setitem", "split", "chunk", "tensor_split", "unbind", "cat", "stack", "hstack", "repeat"),
        *("repeat_interleave", "empty", "empty_like", "zeros", "zeros_like"),
    )
)


@dataclass(frozen=True, slots=True)
class Places:
    """Where the elements of a tensor come from.

    ``tokens``, ``columns`` and ``sources`` have the tensor's shape and say of each element in which row of which source
    it lies (the leading dimensions of a source are its rows), and at which place of the last dimension; ``through`` are
    the operators that move it there.
    """

    tokens: Array
    columns: Array
    sources: Array
    through: frozenset[int]

    def keep_tokens(self, count: int, axes: tuple[int, ...]) -> bool:
        """Whether the rows of the tensor, along some of its axes, are those of the sources in order."""
        shape = tuple(self.tokens.shape[axis] if axis in axes else 1 for axis in range(self.tokens.ndim))
        return math.prod(shape) == count and bool(np.all(self.tokens == np.arange(count).reshape(shape)))


def moved(model: Model, wanted: int, sources: Iterable[int], same: Mapping[int, int]) -> bool:
    """Whether an operator between some tensors and one made of them moves elements; arguments as `follow` has them."""
    pending, seen = [wanted], set(sources)
    while pending:
        current = pending.pop()
        node = model.index.nodes.get(current)
        if node is None or current in seen or model.still(current):
            continue
        if node.op in _MOVES and current not in same:
            return True
        seen.add(current)
        pending.extend([same[current]] if current in same else model.reads(node))
    return False


def follow(model: Model, wanted: int, sources: Iterable[int], same: Mapping[int, int]) -> Places | None:
    """Where the elements of a tensor come from; None where that cannot be told.

    Args:
        model: whose operators are followed.
        wanted: id of the tensor.
        sources: ids of the tensors that its elements come from.
        same: id -> id of the tensor whose elements it holds at the same places.
    """
    nodes = model.index.nodes
    aliases: MutableMapping[int, Node] = {}
    for output, held in same.items():
        node = nodes[output]
        aliases[output] = Node(output, "to", (Ref(held), None), {}, node.shape, node.dtype, node.frame, node.where)
    known: dict[int, Array] = {}
    widths, starts = [], [0]
    for source in sources:
        shape = [unwrap(size) for size in nodes[source].shape or ()]
        if not shape or not all(type(size) is int for size in shape):
            return None
        known[source] = np.arange(starts[-1], starts[-1] + math.prod(shape)).reshape(shape)
        starts.append(starts[-1] + math.prod(shape))
        widths.append(shape[-1])
    given = set(known)
    try:
        numbers = np.asarray(evaluate(ChainMap(aliases, nodes), wanted, known))
    except (UnevaluableError, IndexError, MemoryError):
        return None
    # Arithmetic on the way makes numbers of no element.
    if np.iscomplexobj(numbers) or not np.all((numbers >= 0) & (numbers < starts[-1]) & (numbers == np.floor(numbers))):
        return None
    origin = np.searchsorted(starts, numbers, side="right") - 1
    inside, width = numbers - np.asarray(starts)[origin], np.asarray(widths)[origin]
    moved = (nodes[each] for each in known if each in nodes and each not in given and each not in same)
    through = frozenset(node.id for node in moved if node.op in _MOVES)
    return Places(inside // width, inside % width, origin, through)
