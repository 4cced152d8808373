"""How attention scores are masked: by adding the graph's mask, or by filling what a constant mask hides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kunport_codegen.expression import Scalar, fields_of, unwrap
from kunport_codegen.facts import Number
from kunport_codegen.graph import Node, Ref

from .evaluate import UnevaluableError, evaluate
from .index import Index, combine, is_cast, number, sizes
from .spelling import spelled

# Scores at or below this are taken as hidden: float16's lowest number is -65504.
_HIDDEN = -1e4
# Operators by which positions are held against a number.
_AGAINST = {"lt", "le", "gt", "ge", "eq", "ne", "add", "sub", "tril", "triu"}
_Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Mask:
    """``kind`` and ``window`` as in the graph's ``mask`` operator; ``covered`` are nodes that others may share."""

    kind: str
    window: Number | None = None
    covered: list[Node] = field(default_factory=list)


def find_mask(index: Index, node: Node) -> tuple[Node, Mask] | None:
    """The scores behind an operator that masks them, and the mask."""
    return multiplied_mask(index, node) or added_mask(index, node) or filled_mask(index, node)


def added_mask(index: Index, node: Node) -> tuple[Node, Mask] | None:
    """The scores and the mask of ``scores + mask``."""
    if node.op != "add" or len(node.args) != 2 or node.kwargs:
        return None
    for scores, added in (node.args, node.args[::-1]):
        tensor, made = index.producer(scores), index.producer(added)
        if tensor is None or made is None or sizes(tensor) != sizes(node):
            continue
        booleans = made.dtype is not None and made.dtype.name == "bool"  # which add ones and hide nothing
        if not booleans and (mask := operand_mask(index, made)) is not None:
            return tensor, mask
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

    The boolean mask is the graph's own, or it depends on sizes alone: then it is evaluated.
    """
    if node.op == "where" and len(node.args) == 3:
        keep, scores, fill, inverted = (*node.args, False)
    elif node.op == "masked_fill":
        scores, keep, fill, inverted = (*node.args, True)
    else:
        return None
    tensor, lowest, shape = index.producer(scores), _constant(index, fill), sizes(node)
    if tensor is None or lowest is None or shape is None or sizes(tensor) != shape or np.any(lowest > _HIDDEN):
        return None
    made = index.producer(keep)
    source, covered = (
        _source(index, index.producer(made.args[0])) if made is not None and _is_true(made) else (None, [])
    )
    if source is not None and made is not None and inverted:  # where the mask is not zero it hides
        return tensor, Mask(str(source.args[0]), number(source.args[1]), [made, *covered])
    mask = _constant(index, keep)
    if mask is None or mask.dtype != bool:
        return None
    kept = ~mask if inverted else mask
    covered = index.ancestors(made.id) if made is not None else []
    found = _cut(index, made, kept, shape, covered, inverted)
    return None if found is None else (tensor, found)


def _cut(
    index: Index, made: Node | None, kept: _Array, shape: tuple[int, ...], covered: list[Node], inverted: bool = False
) -> Mask | None:
    """The mask that shows what is ``kept`` in scores of a shape; ``made`` may be cut out of one for more positions."""
    try:
        kept = np.broadcast_to(kept, shape)
    except ValueError:
        return None
    first = kept.reshape(-1, *shape[-2:])[0]
    seen = _band(first) if shape[-1] == shape[-2] and np.array_equal(kept, np.broadcast_to(first, shape)) else None
    if seen is not None and seen < shape[-1]:
        named = _named(covered, seen)  # without a number in the source it is a window of this length alone
        return None if named is None else Mask("sliding", named, covered)
    causal = np.tri(shape[-2], shape[-1], k=shape[-1] - shape[-2], dtype=bool)
    if not np.array_equal(kept, np.broadcast_to(causal, shape)):
        return None
    window = _window(index, made, inverted, covered, shape[-1])
    return None if window is None else Mask("sliding" if window[0] else "causal", window[0], covered)


def _is_true(node: Node) -> bool:
    return node.op == "to" and node.dtype is not None and node.dtype.name == "bool"


def _window(
    index: Index, node: Node | None, inverted: bool, covered: list[Node], size: int
) -> tuple[Number | None] | None:
    """The window of a mask that is causal among ``size`` keys; cut out of one for more positions, that one shows it.

    A tuple with None is the causal mask; None alone is a mask of another kind, or a window that may not show.
    """
    whole = index.producer(node.args[0]) if node is not None and node.op == "getitem" else None
    if node is None or whole is None:
        return None if _reaches_further(covered, size) else (None,)
    key = "window", inverted, spelled(index, index.ancestors(whole.id), {})
    return index.once(key, lambda: _judge(index, whole, inverted))


def _judge(index: Index, whole: Node, inverted: bool) -> tuple[Number | None] | None:
    values = _constant(index, Ref(whole.id))
    if values is None or values.ndim < 2 or values.shape[-1] != values.shape[-2]:
        return (None,)
    kept = np.logical_not(values) if inverted else values.astype(bool)
    kept = kept.reshape(-1, *kept.shape[-2:])[0]
    seen = _band(kept)
    if seen is None:
        return None
    if seen == len(kept):
        return (None,)
    return (_named(index.ancestors(whole.id), seen) or seen,)


def _named(nodes: list[Node], seen: int) -> Number | None:
    """The number that made a mask of a window; one with an expression before a plain one."""
    found = [number(arg) for each in nodes for arg in (*each.args, *each.kwargs.values())]
    scalars = [each for each in found if isinstance(each, Scalar)]
    named = _giving(scalars, seen)
    return named or next((seen for each in found if each is not None and abs(unwrap(each)) == seen), None)


def _giving(numbers: list[Scalar], seen: int) -> Number | None:
    """The window by the first number that gives it: itself or its negative, or the distance to the furthest key."""
    for each in numbers:
        if abs(unwrap(each)) == seen:
            return each if unwrap(each) == seen else combine("neg", each)
    for each in numbers:
        if abs(unwrap(each)) == seen - 1 > 0:
            return combine("add", each, 1) if unwrap(each) > 0 else combine("sub", 1, each)
    return None


def multiplied_mask(index: Index, node: Node) -> tuple[Node, Mask] | None:
    """The scores and the mask of ``scores * seen + lowest * (1 - seen)``, where ``seen`` are ones and zeros."""
    if node.op != "add" or len(node.args) != 2 or node.kwargs:
        return None
    for product, fill in (node.args, node.args[::-1]):
        made, lowest = index.producer(product), _constant(index, fill)
        if made is None or made.op != "mul" or lowest is None or len(made.args) != 2:
            continue
        for scores, keep in (made.args, made.args[::-1]):
            tensor, seen = index.producer(scores), _constant(index, keep)
            if tensor is None or seen is None or seen.shape != lowest.shape or sizes(tensor) != sizes(node):
                continue
            if np.all((seen == 1) | (seen == 0)) and np.all(np.where(seen == 1, lowest == 0, lowest <= _HIDDEN)):
                covered = [made, *index.ancestors(fill.id)]
                mask = _cut(index, index.producer(keep), seen == 1, sizes(node) or (), covered)
                return None if mask is None else (tensor, mask)
    return None


def operand_mask(index: Index, node: Node | None) -> Mask | None:
    """The mask that an operand of an attention operator is: the graph's own or one made by hand, booleans included."""
    mask, covered = _source(index, node)
    if mask is not None:
        return Mask(str(mask.args[0]), number(mask.args[1]), covered)
    return _made_mask(index, node)


def _made_mask(index: Index, node: Node | None) -> Mask | None:
    """The mask that the source made by hand, from sizes alone.

    It has zeros for what is seen and very low numbers elsewhere, or is true for what is seen.
    """
    if node is None or not index.constant(node.id):
        return None
    return index.once(("made mask", node.id), lambda: _judge_made(index, node))


def _judge_made(index: Index, node: Node) -> Mask | None:
    values = _constant(index, Ref(node.id))
    if values is None or values.ndim < 2 or values.shape[-1] != values.shape[-2]:
        return None
    hidden = ~values if values.dtype == bool else values <= _HIDDEN
    kept = np.logical_not(hidden).reshape(-1, *values.shape[-2:])
    seen = _band(kept[0])
    if seen is None or not np.all(hidden | (values == (values.dtype == bool))) or not np.all(kept == kept[0]):
        return None
    covered = index.ancestors(node.id)
    numbers = [number(arg) for each in covered for arg in (*each.args, *each.kwargs.values())]
    limits = [each for each in numbers if each is not None and isinstance(unwrap(each), int)]
    size = len(kept[0])
    if seen == size:  # a longer window would not show
        further = any(abs(unwrap(each)) > size + 1 for each in limits) or _reaches_further(covered, size)
        return None if further else Mask("causal", None, covered)
    fields = [each for each in limits if isinstance(each, Scalar) and fields_of(each.expr)]
    window = _giving(fields, seen)
    if fields and window is None:  # it follows from a field in a way that is not read here
        return None
    return Mask("sliding", seen if window is None else window, covered)


def _reaches_further(nodes: list[Node], size: int) -> bool:
    """Whether positions are held against a number so large that what it hides would not show among ``size`` keys."""
    compared = (number(arg) for node in nodes if node.op in _AGAINST for arg in (*node.args, *node.kwargs.values()))
    return any(each is not None and abs(unwrap(each)) >= size - 1 for each in compared)


def _band(kept: np.ndarray[Any, Any]) -> int | None:
    """How many of the last keys each query sees in a square ``[query, key]``, None where it sees others."""
    seen, size = int(kept[-1].sum()), len(kept)
    band = np.tri(size, dtype=bool) & ~np.tri(size, k=-seen, dtype=bool)
    return seen if np.array_equal(kept, band) else None


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
