"""How attention scores are masked: by adding the graph's mask, or by filling what a constant mask hides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Number
from kunport_codegen.graph import Node

from .evaluate import UnevaluableError, evaluate
from .index import Index, is_cast, number, sizes

# Scores at or below this are taken as hidden: float16's lowest number is -65504.
_HIDDEN = -1e4


@dataclass(slots=True)
class Mask:
    """``kind`` and ``window`` as in the graph's ``mask`` operator; ``covered`` are nodes that others may share."""

    kind: str
    window: Number | None = None
    covered: list[Node] = field(default_factory=list)


def added_mask(index: Index, node: Node) -> tuple[Node, Mask] | None:
    """The scores and the mask of ``scores + mask``."""
    if node.op != "add" or len(node.args) != 2 or node.kwargs:
        return None
    for scores, added in (node.args, node.args[::-1]):
        mask, covered = _source(index, index.producer(added))
        tensor = index.producer(scores)
        if mask is not None and tensor is not None and sizes(tensor) == sizes(node):
            kind, window = mask.args
            return tensor, Mask(str(kind), number(window), covered)
    return None


def _source(index: Index, node: Node | None) -> tuple[Node | None, list[Node]]:
    """The graph's mask behind casts and slices that keep it whole."""
    covered: list[Node] = []
    while node is not None and node.op != "mask":
        before = index.producer(node.args[0]) if node.args else None
        whole = node.op == "getitem" and sizes(node) is not None and sizes(node) == sizes(before) and _slices(node)
        if not is_cast(node) and not whole:
            return None, []
        covered.append(node)
        node = before
    return node, covered


def _slices(node: Node) -> bool:
    items = node.args[1] if isinstance(node.args[1], list | tuple) else (node.args[1],)
    return all(item is Ellipsis or (isinstance(item, slice) and unwrap(item.step) in (None, 1)) for item in items)


def filled_mask(index: Index, node: Node) -> tuple[Node, Mask] | None:
    """The scores and the mask of ``where(kept, scores, lowest)`` or ``scores.masked_fill(hidden, lowest)``.

    The boolean mask must depend on sizes alone; it is evaluated, and only the causal one is known.
    """
    if node.op == "where" and len(node.args) == 3:
        keep, scores, fill, inverted = (*node.args, False)
    elif node.op == "masked_fill":
        scores, keep, fill, inverted = (*node.args, True)
    else:
        return None
    tensor, mask = index.producer(scores), _constant(index, keep)
    lowest, shape = _constant(index, fill), sizes(node)
    if tensor is None or mask is None or lowest is None or shape is None or sizes(tensor) != shape:
        return None
    if mask.dtype != bool or np.any(lowest > _HIDDEN):
        return None
    try:
        kept = np.broadcast_to(~mask if inverted else mask, shape)
    except ValueError:
        return None
    causal = np.tri(shape[-2], shape[-1], k=shape[-1] - shape[-2], dtype=bool)
    producer = index.producer(keep)
    covered = index.ancestors(producer.id) if producer is not None else []
    return (tensor, Mask("causal", None, covered)) if np.array_equal(kept, np.broadcast_to(causal, shape)) else None


def _constant(index: Index, arg: Any) -> np.ndarray[Any, Any] | None:
    if number(arg) is not None:
        return np.asarray(unwrap(arg))
    node = index.producer(arg)
    if node is None or not index.constant(node.id):
        return None
    try:
        return np.asarray(evaluate(index.nodes, node.id, {}))
    except UnevaluableError:
        return None
