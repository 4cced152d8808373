"""Which elements of one tensor another holds, and where: told by following numbered elements through the operators.

Facts such as the packing of a projection rest on where elements go. Each source is filled with the numbers of its
elements, and the operators between are evaluated on these; what a fact of its own states (a norm, a rotation, a bias)
counts as leaving each element at its place.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from kunport_codegen.expression import unwrap
from kunport_codegen.graph import Node, Ref
from kunport_codegen.recognition.evaluate import UnevaluableError, evaluate
from kunport_codegen.recognition.rules import Array
from kunport_codegen.recognition.spelling import spelled

from kunport.variants.claims.views import scrambles, swaps
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


def _moves(model: Model, node: Node) -> bool:
    return node.op in _MOVES or scrambles(model, node) or swaps(model, node)


def moved(model: Model, wanted: int, sources: Iterable[int], same: Mapping[int, int]) -> bool:
    """Whether an operator between some tensors and one made of them moves elements; arguments as `follow` has them."""
    pending, seen = [wanted], set(sources)
    while pending:
        current = pending.pop()
        node = model.index.nodes.get(current)
        if node is None or current in seen or model.still(current):
            continue
        if _moves(model, node) and current not in same:
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
    names = {source: ("source", at) for at, source in enumerate(sources)}
    shapes = [tuple(unwrap(size) for size in nodes[source].shape or ()) for source in names]
    if not all(shape and all(type(size) is int for size in shape) for shape in shapes):
        return None
    between = _between(model, wanted, names.keys(), same)
    # Where layers are spelled the same, elements are followed in one of them; a spelling leaves out what loops do.
    loops = any(node.body is not None for node in between)
    spelling = wanted if loops else (tuple(shapes), names.get(wanted), spelled(model.index, between, names))
    read = ChainMap({node.id: node for node in between}, nodes)
    found = model.index.once(
        ("places", spelling), lambda: _followed(read, wanted, dict(zip(names, shapes, strict=True)))
    )
    if found is None:
        return None
    moves = frozenset(node.id for node in between if _moves(model, node))
    return Places(*found, moves)


def passed(
    model: Model, wanted: int, sources: Iterable[int], same: Mapping[int, int], through: Collection[int]
) -> Array | None:
    """How often each element of a tensor came through one of some tensors; None where that cannot be told.

    Arguments are as `follow` has them; ``through`` are ids among those of ``same``.
    """
    nodes, counted = model.index.nodes, list(sources)
    shapes = {each: tuple(unwrap(size) for size in nodes[each].shape or ()) for each in counted}
    if not all(shape and all(type(size) is int for size in shape) for shape in shapes.values()):
        return None
    between = [
        Node(node.id, "add", (node.args[0], 1), {}, node.shape, None, node.frame, node.where)
        if node.id in through
        else node
        for node in _between(model, wanted, counted, same)
    ]
    zeros = {each: np.zeros(shape, np.intp) for each, shape in shapes.items()}
    names = {source: ("source", at) for at, source in enumerate(counted)}
    loops = any(node.body is not None for node in between)
    key = wanted if loops else (tuple(shapes.values()), names.get(wanted), spelled(model.index, between, names))

    def count() -> Array | None:
        try:
            values = np.asarray(evaluate(ChainMap({node.id: node for node in between}, nodes), wanted, zeros))
        except (UnevaluableError, IndexError, MemoryError):
            return None
        return values if np.issubdtype(values.dtype, np.integer) or np.all(values == np.floor(values)) else None

    found: Array | None = model.index.once(("passed", key), count)
    return found


def _between(model: Model, wanted: int, sources: Collection[int], same: Mapping[int, int]) -> list[Node]:
    """The operators that make a tensor of some others, in order; one of ``same`` only holds its other tensor."""
    nodes = model.index.nodes
    found: dict[int, Node] = {}
    pending = [wanted]
    while pending:
        current = pending.pop()
        if current in sources or current in found or current not in nodes:
            continue
        node = nodes[current]
        if current in same:
            held = (Ref(same[current]), None)
            node = Node(current, "to", held, {}, node.shape, node.dtype, node.frame, node.where)
        found[current] = node
        pending.extend(model.reads(node) if current not in same else [same[current]])
        pending.extend(
            before.id for _, before, _ in (node.body.carried if node.body else ()) if isinstance(before, Ref)
        )
    return sorted(found.values(), key=lambda node: model.index.order[node.id])


def _followed(
    nodes: Mapping[int, Node], wanted: int, sources: Mapping[int, tuple[int, ...]]
) -> tuple[Array, Array, Array] | None:
    """The rows, columns and sources of `Places`; ``sources`` are ids with their shapes."""
    known: dict[int, Array] = {}
    starts = [0]
    for source, shape in sources.items():
        known[source] = np.arange(starts[-1], starts[-1] + math.prod(shape)).reshape(shape)
        starts.append(starts[-1] + math.prod(shape))
    try:
        numbers = np.asarray(evaluate(nodes, wanted, known))
    except (UnevaluableError, IndexError, MemoryError):
        return None
    # Arithmetic on the way makes numbers of no element.
    if np.iscomplexobj(numbers) or not np.all((numbers >= 0) & (numbers < starts[-1])):
        return None
    if not np.array_equal(numbers, whole := numbers.astype(np.intp, copy=False)):
        return None
    widths = np.asarray([shape[-1] for shape in sources.values()])
    if len(widths) == 1:
        return *np.divmod(whole, widths[0]), np.zeros(whole.shape, np.intp)
    origin = np.searchsorted(np.asarray(starts), whole, side="right") - 1
    return *np.divmod(whole - np.asarray(starts)[origin], widths[origin]), origin
