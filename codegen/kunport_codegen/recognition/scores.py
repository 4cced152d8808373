"""What attention does to its scores, between the product of query and key and the softmax."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Number
from kunport_codegen.graph import Node

from .biases import PRODUCTS, Bias, added_bias, bias
from .evaluate import UnevaluableError, evaluate
from .index import Index, argument, axis, combine, equal, is_cast, number, over_last, single, sizes, split_number
from .mask_shapes import PART, Mask
from .masks import find_mask, together

# The lowest number of float32 and bfloat16 is about -3.4e38.
_LOWEST = -3e38


@dataclass(slots=True)
class Scores:
    """What happens between ``query @ key.T`` and the softmax, read from its end."""

    product: Node
    operands: tuple[Node | None, Node | None] = (None, None)
    factors: list[Number] = field(default_factory=list)
    softcap: Number | None = None
    mask: Mask | None = None
    bias: Bias | None = None
    sinks: str | None = None
    covered: list[Node] = field(default_factory=list)


def read_scores(index: Index, softmax: Node) -> Scores | None:
    """Walks from the softmax back to the product of query and key."""
    node = index.producer(softmax.args[0])
    rank = len(node.shape) if node is not None and node.shape is not None else 0
    if node is None or rank not in (3, 4, 5) or axis(softmax.kwargs.get("dim"), rank) != -1:
        return None
    found = Scores(node)
    masked_inside = False
    while node is not None and node.op not in PRODUCTS:
        covered = [node]
        if is_cast(node) or remerges(index, node) or _keeps_finite(index, node) or _adds_nothing(node):
            following = index.producer(node.args[0])
        elif (capped := _softcap(index, node)) is not None:
            following, cap, covered = capped
            if found.factors or found.softcap is not None:
                return None
            found.softcap = cap
            masked_inside = True  # a mask from here on would be capped with the scores
        elif (scaled := factor(index, node)) is not None:
            following, value = scaled
            found.factors.append(value)
        elif (shifted := _without_maximum(index, node)) is not None:
            following, covered = shifted
        elif (sunk := _sinks(index, node)) is not None:
            following, found.sinks, covered = sunk
            if found.mask is not None or found.factors or found.softcap is not None:
                return None
        elif (masked := find_mask(index, node)) is not None:
            following, mask = masked
            scaled_with_scores = all(unwrap(each) > 0 for each in found.factors)  # what is hidden stays hidden
            found.mask = together(index, found.mask, mask)
            if found.mask is None or masked_inside or not scaled_with_scores:
                return None
        elif (biased := added_bias(index, node)) is not None:
            following, added = biased
            if not _put_bias(found, added):
                return None
        else:
            return None
        found.covered.extend(covered)
        node = following
    if node is None or not _finish(index, found, node) or (found.mask is not None and found.mask.kind == PART):
        return None
    found.product = node
    found.covered.append(node)
    return found


def spelled_softmax(index: Index, quotient: Node) -> tuple[Node, list[Node]] | None:
    """``exp(s) / sum(exp(s))`` over the last dimension, as the softmax that it is, with the nodes that spell it."""
    if len(quotient.args) != 2 or quotient.kwargs:
        return None
    raised, total = map(index.producer, quotient.args)
    if raised is None or total is None or raised.op != "exp" or total.op != "sum":
        return None
    if index.producer(total.args[0]) is not raised or not over_last(total, raised):
        return None
    how = {"dim": -1}
    softmax = Node(
        quotient.id, "softmax", raised.args, how, quotient.shape, quotient.dtype, quotient.frame, quotient.where
    )
    return softmax, [quotient, raised, total]


def _finish(index: Index, found: Scores, product: Node) -> bool:
    """Takes the product's operands, and what ``baddbmm`` scales and adds."""
    if product.op != "baddbmm":
        found.operands = (index.producer(product.args[0]), index.producer(product.args[1]))
        return True
    found.operands = (index.producer(product.args[1]), index.producer(product.args[2]))
    added, alpha = index.producer(product.args[0]), number(product.kwargs.get("alpha", 1))
    if added is None or alpha is None:
        return False
    plain = equal(number(product.kwargs.get("beta", 1)), 1)
    if not _is_zero(index, added) and not (plain and _put_bias(found, bias(index, added))):
        return False
    found.factors.append(alpha)
    return True


def _put_bias(found: Scores, added: Bias) -> bool:
    """Whether a bias can stand beside what comes after it, which must neither scale nor cap it."""
    if found.bias is not None or found.factors or found.softcap is not None:
        return False
    if added.mask is not None and found.mask is None:
        found.mask = added.mask
    found.bias = added
    return True


def _is_zero(index: Index, node: Node) -> bool:
    if not index.constant(node.id):
        return False
    try:
        return not np.any(evaluate(index.nodes, node.id, {}))
    except UnevaluableError:
        return False


def _adds_nothing(node: Node) -> bool:
    """Whether an operator adds a plain zero: what source adds that has no bias."""
    return node.op == "add" and len(node.args) == 2 and not node.kwargs and equal(number(node.args[1]), 0)


def _keeps_finite(index: Index, node: Node) -> bool:
    """Whether an operator only lifts what is hidden to the lowest number there is."""
    if node.op != "maximum":
        return False
    lowest = index.producer(node.args[1])
    if lowest is None or not index.constant(lowest.id):
        return False
    try:
        return bool(np.all(evaluate(index.nodes, lowest.id, {}) <= _LOWEST))
    except UnevaluableError:
        return False


def remerges(index: Index, node: Node) -> bool:
    """Whether an operator only merges batch, heads and their groups, or takes them apart.

    So between ``[b, h, x, y]`` and ``[b * h, x, y]`` or ``[b, h / g, g, x, y]``.
    """
    before, after = sizes(index.producer(node.args[0])) if node.op == "reshape" else None, sizes(node)
    if before is None or after is None or {len(before), len(after)} - {3, 4, 5}:
        return False
    return before[-2:] == after[-2:]


def factor(index: Index, node: Node) -> tuple[Node, Number] | None:
    """The tensor and the number of ``tensor * number`` or ``tensor / number``, the latter as its reciprocal."""
    if node.op not in ("mul", "div") or len(node.args) != 2 or node.kwargs:
        return None
    for one, other in (node.args, node.args[::-1]) if node.op == "mul" else (node.args,):
        tensor, value = index.producer(one), single(index, other)
        if tensor is None or value is None:
            continue
        if node.op == "mul":
            return tensor, value
        return (tensor, combine("div", 1.0, value)) if unwrap(value) != 0 else None
    return None


def _softcap(index: Index, node: Node) -> tuple[Node, Number, list[Node]] | None:
    """The s, c and nodes of ``c * tanh(s / c)``."""
    outer = split_number(node, index.producer) if node.op == "mul" else None
    if outer is None or outer[0].op != "tanh":
        return None
    inner = index.producer(outer[0].args[0])
    parts = split_number(inner, index.producer) if inner is not None and inner.op == "div" else None
    if inner is None or parts is None or index.producer(inner.args[0]) is None or not equal(parts[1], outer[1]):
        return None
    return parts[0], parts[1], [node, outer[0], inner]


def _without_maximum(index: Index, node: Node) -> tuple[Node, list[Node]] | None:
    """The s of ``s - max(s)`` over the last dimension, which a softmax does not see."""
    if node.op != "sub" or len(node.args) != 2 or node.kwargs:
        return None
    source, maximum = index.producer(node.args[0]), index.producer(node.args[1])
    covered = [node]
    if sizes(maximum) != (*(sizes(source) or ())[:-1], 1):
        return None
    while maximum is not None and maximum.op in ("reshape", "unsqueeze"):
        covered.append(maximum)
        maximum = index.producer(maximum.args[0])
    if maximum is not None and maximum.op == "item" and maximum.args[1] == 0:
        covered.append(maximum)
        maximum = index.producer(maximum.args[0])
    if source is None or maximum is None or maximum.op not in ("max", "amax") or source.shape is None:
        return None
    last = axis(maximum.kwargs.get("dim", argument(maximum, 1)), len(source.shape)) == -1
    if index.producer(maximum.args[0]) is not source or not last:
        return None
    return source, [*covered, maximum]


def _sinks(index: Index, node: Node) -> tuple[Node, str, list[Node]] | None:
    """The scores, the path and the nodes of ``cat((scores, sinks), -1)`` with one learned number a head."""
    tensors = node.args[0] if node.op == "cat" else None
    if not isinstance(tensors, list | tuple) or len(tensors) != 2 or axis(node.kwargs.get("dim"), 4) != -1:
        return None
    scores, column = index.producer(tensors[0]), index.producer(tensors[1])
    spread = [each for each in index.ancestors(column.id) if each.op != "parameter"] if column is not None else []
    parameter = index.strip(column, *(each.op for each in spread))
    shape, heads = sizes(column), sizes(parameter)
    if scores is None or column is None or parameter is None or parameter.op != "parameter" or shape is None:
        return None
    if heads is None or len(heads) != 1 or len(shape) != 4 or shape[1] != heads[0] or shape[3] != 1:
        return None
    probe = np.arange(float(heads[0]))
    try:
        values = evaluate(index.nodes, column.id, {parameter.id: probe})
    except UnevaluableError:
        return None
    if not np.array_equal(values, np.broadcast_to(probe[:, None, None], shape)):
        return None
    return scores, str(parameter.args[0]), [node, *spread]
