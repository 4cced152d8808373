"""How attention scores are masked: by adding the graph's mask, or by filling what a constant mask hides."""

from __future__ import annotations

from typing import Any

import numpy as np

from kunport_codegen.expression import Scalar, fields_of, unwrap
from kunport_codegen.facts import Number
from kunport_codegen.graph import Node, Ref

from .evaluate import UnevaluableError, evaluate
from .index import Index, is_cast, number, sizes
from .mask_shapes import PART, Mask, band, chunk, giving, named, reaches_further
from .spelling import spelled

# Scores at or below this are taken as hidden: float16's lowest number is -65504.
_HIDDEN = -1e4
_Array = np.ndarray[Any, Any]


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
        if _constant(index, scores) is not None:  # where(hidden, lowest, scores)
            scores, fill, inverted = fill, scores, True
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
    alike = np.array_equal(kept, np.broadcast_to(first, shape))
    if alike and shape[-1] == shape[-2]:
        seen, each = band(first), chunk(first)
        if (found := each if seen is None else seen) is not None and found < shape[-1]:
            by = named(covered, found)  # without a number in the source it is a window of this length alone
            return None if by is None else Mask("chunked" if seen is None else "sliding", by, covered, first)
    causal = np.tri(shape[-2], shape[-1], k=shape[-1] - shape[-2], dtype=bool)
    if not alike or not np.array_equal(first, causal):
        return Mask(PART, None, covered, first) if alike else None
    window = _window(index, made, inverted, covered, shape[-1])
    return None if window is None else Mask("sliding" if window[0] else "causal", window[0], covered, first)


def together(index: Index, first: Mask | None, second: Mask) -> Mask | None:
    """One mask for two: what both show. A window sees nothing that a causal mask hides."""
    if first is None:
        return second
    kinds = {first.kind, second.kind}
    covered = [*first.covered, *second.covered]
    if kinds == {"causal"} or kinds == {"causal", "sliding"}:
        narrow = first if first.kind == "sliding" else second
        return Mask(narrow.kind, narrow.window, covered, narrow.kept)
    if first.kept is None or second.kept is None or first.kept.shape != second.kept.shape:
        return None
    kept = first.kept & second.kept
    return _cut(index, None, kept, kept.shape, covered)


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
        return None if reaches_further(covered, size) else (None,)
    key = "window", inverted, spelled(index, index.ancestors(whole.id), {})
    return index.once(key, lambda: _judge(index, whole, inverted))


def _judge(index: Index, whole: Node, inverted: bool) -> tuple[Number | None] | None:
    values = _constant(index, Ref(whole.id))
    if values is None or values.ndim < 2 or values.shape[-1] != values.shape[-2]:
        return (None,)
    kept = np.logical_not(values) if inverted else values.astype(bool)
    kept = kept.reshape(-1, *kept.shape[-2:])[0]
    seen = band(kept)
    if seen is None:
        return None
    if seen == len(kept):
        return (None,)
    return (named(index.ancestors(whole.id), seen) or seen,)


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
    seen, each = band(kept[0]), chunk(kept[0])
    if not np.all(hidden | (values == (values.dtype == bool))) or not np.all(kept == kept[0]):
        return None
    kind = "chunked" if seen is None else "sliding"
    seen = each if seen is None else seen
    if seen is None:
        return None
    covered = index.ancestors(node.id)
    numbers = [number(arg) for each in covered for arg in (*each.args, *each.kwargs.values())]
    limits = [each for each in numbers if each is not None and isinstance(unwrap(each), int)]
    size = len(kept[0])
    if seen == size:  # a longer window would not show
        further = any(abs(unwrap(each)) > size + 1 for each in limits) or reaches_further(covered, size)
        return None if further else Mask("causal", None, covered)
    fields = [each for each in limits if isinstance(each, Scalar) and fields_of(each.expr)]
    window = giving(fields, seen)
    if fields and window is None:  # it follows from a field in a way that is not read here
        return None
    return Mask(kind, seen if window is None else window, covered)


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
