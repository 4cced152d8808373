"""Tensors that are added to attention scores beside a mask: ALiBi, keys that an indexer chose, biases made of data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kunport_codegen.graph import Node, refs

from .draw import Draw
from .evaluate import UnevaluableError, evaluate
from .index import Index, number, sizes
from .mask_shapes import Mask
from .rules import Array

PRODUCTS = frozenset(("matmul", "bmm", "baddbmm"))
# Operators between a mask, a choice of keys and the tensor that is added.
_REGION = frozenset(
    (
        *("masked_fill", "where", "scatter", "unsqueeze", "squeeze", "expand", "reshape", "to", "getitem", "transpose"),
        *("add", "mul", "eq", "ne", "gt", "lt", "ge", "le", "bitwise_not", "bitwise_and", "bitwise_or"),
        *("ones", "zeros", "full", "ones_like", "zeros_like", "full_like", "tensor"),
    )
)
_HIDDEN = -1e4


@dataclass(slots=True)
class Bias:
    """An added tensor: ``choice`` is the operator that chose the keys it leaves, ``mask`` what it hides in any case."""

    tensor: Node
    alibi: bool
    choice: Node | None
    mask: Mask | None
    covered: list[Node]


def added_bias(index: Index, node: Node) -> tuple[Node, Bias] | None:
    """The scores and the bias of ``scores + bias``."""
    if node.op != "add" or len(node.args) != 2 or node.kwargs:
        return None
    for arg, other in (node.args, node.args[::-1]):
        scores, tensor = index.producer(arg), index.producer(other)
        if scores is None or tensor is None or sizes(scores) != sizes(node):
            continue
        if _comes_of_product(index, scores) and not _comes_of_product(index, tensor):
            return scores, bias(index, tensor)
    return None


def bias(index: Index, tensor: Node) -> Bias:
    """What a tensor is that is added to scores."""
    if index.constant(tensor.id):
        return _of_positions(index, tensor)
    region, ends = _region(index, tensor)
    masks = [node for node in ends if node.op == "mask"]
    choices = [index.producer(node.args[0]) for node in ends if node.op == "item"]
    chosen = [node for node in choices if node is not None and node.op == "topk"]
    mask = _hidden(index, tensor, masks[0], ends) if len(masks) == 1 else None
    covered = [*region, *chosen, *(node for node in ends if node.op == "item")]
    return Bias(tensor, False, chosen[0] if len(chosen) == 1 else None, mask, covered)


def _comes_of_product(index: Index, node: Node | None) -> bool:
    """Whether a tensor is a product with numbers and biases on it."""
    while node is not None and node.op not in PRODUCTS:
        if node.op not in ("to", "mul", "div", "add", "reshape", "tanh"):
            return False
        if node.op in ("mul", "div") and all(number(arg) is None for arg in node.args):
            return False
        node = next((each for each in map(index.producer, node.args) if each is not None), None)
    return node is not None


def _region(index: Index, tensor: Node) -> tuple[list[Node], list[Node]]:
    """The operators that an added tensor is made by, and those that make what they read."""
    region, ends = dict[int, Node](), dict[int, Node]()
    pending = [tensor]
    while pending:
        node = pending.pop()
        if node.id in region or node.id in ends:
            continue
        if node.op in _REGION:
            region[node.id] = node
            pending.extend(index.nodes[each] for each in refs((node.args, node.kwargs)) if each in index.nodes)
        else:
            ends[node.id] = node
    return list(region.values()), list(ends.values())


def _hidden(index: Index, tensor: Node, mask: Node, ends: list[Node]) -> Mask | None:
    """The mask, if the tensor hides all that it hides, whatever the data: tried with random data."""
    shape = sizes(mask)
    if shape is None or mask.args[0] != "causal":
        return None
    draw = Draw()
    visible = np.tri(shape[-2], shape[-1], k=shape[-1] - shape[-2], dtype=bool)
    known: dict[int, Array] = {mask.id: np.broadcast_to(np.where(visible, 0.0, -np.inf), shape)}
    for node in ends:
        wanted = sizes(node)
        if node is mask or wanted is None:
            continue
        whole = node.dtype is not None and node.dtype.name.startswith("int")
        known[node.id] = draw.integers(0, shape[-1], wanted) if whole else draw.standard_normal(wanted)
    try:
        values = evaluate(index.nodes, tensor.id, known)
        hidden = np.broadcast_to(~visible, values.shape)
    except (UnevaluableError, ValueError):
        return None
    return Mask("causal", None, [mask]) if np.all(values[hidden] <= _HIDDEN) else None


def _of_positions(index: Index, tensor: Node) -> Bias:
    """A constant, which may be ALiBi, and may hide what comes after a query as well."""
    try:
        values = np.asarray(evaluate(index.nodes, tensor.id, {}))
    except UnevaluableError:
        return Bias(tensor, False, None, None, [])
    visible = values > _HIDDEN
    masked = not np.all(visible)
    size = values.shape[-1] if values.ndim >= 3 else 0
    causal = np.tri(size, dtype=bool)
    square = bool(size) and values.shape[-2] == size and np.all(visible | ~causal)
    if not masked and (_grows_with_the_key(values) or not square or not _mirrored(values)):
        return Bias(tensor, _grows_with_the_key(values), None, None, [])
    if masked and (not square or not np.all(visible == causal)):
        return Bias(tensor, False, None, None, [])
    last = values[..., -1:, :]  # of the last query, which sees every key
    shifted = values - values[..., :1] + last[..., :1]  # by query, which a softmax does not see
    alike = np.allclose(np.where(causal, shifted, last), np.broadcast_to(last, values.shape), rtol=1e-4)
    mask = Mask("causal", None, []) if masked else None
    return Bias(tensor, alike and _grows_with_the_key(last), None, mask, [])


def _mirrored(values: Array) -> bool:
    """Whether what comes after a query falls with distance as what comes before it."""
    return bool(np.allclose(values, np.swapaxes(values, -1, -2)))


def _grows_with_the_key(values: Array) -> bool:
    """Whether numbers ``[heads, 1, key]`` are ALiBi (arXiv:2108.12409): a slope for each head, times the key."""
    if values.ndim < 3 or values.shape[-1] < 3:
        return False
    steps = np.diff(values, axis=-1)
    slopes = steps[..., :1]
    return bool(np.all(slopes > 0) and np.allclose(steps, slopes) and len(np.unique(slopes.round(9))) > 1)
