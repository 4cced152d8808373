"""Normalisations over the last dimension: RMS, layer and L2 norms, spelled out or as one operator of torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Norm, Number
from kunport_codegen.graph import DType, Node

from .index import FLOAT32, Index, argument, equal, is_cast, number, over_last, sizes, split_number, widest

_SPELLED = ("rsqrt", "sqrt", "pow")
_OPERATORS = {"layer_norm": "layer", "rms_norm": "rms"}


def find_norms(index: Index) -> list[Norm]:
    """The norms of a graph, in order.

    A norm is recognised as ``x * rsqrt(statistic(x) + eps)``, with the weight, the bias and the casts that follow it.
    """
    found = []
    for node in index.in_order(*_SPELLED, *_OPERATORS):
        core = _operator(index, node) if node.op in _OPERATORS else _spelled_out(index, node)
        norm = core and _finish(index, core)
        if norm:
            found.append(norm)
    return found


@dataclass(slots=True)
class _Core:
    """The normalised tensor before weight and bias: ``scaled`` is its node and ``source`` the tensor read."""

    kind: str
    source: Node
    scaled: Node
    covered: list[Node]
    epsilon: Number
    weight: _Weight | None = None
    bias: str | None = None
    rounded: bool = False


@dataclass(slots=True)
class _Weight:
    path: str
    offset: float
    dtype: DType | None
    size: Number
    covered: list[Node]


def _spelled_out(index: Index, root: Node) -> _Core | None:
    """``y * rsqrt(mean(y ** 2) + eps)``, where y is x or ``x - mean(x)``, in one of its spellings."""
    exponent = number(root.args[1]) if root.op == "pow" else None
    inverse = root.op == "rsqrt" or equal(exponent, -0.5)
    if not inverse and root.op != "sqrt" and not equal(exponent, 0.5):
        return None
    shifted, scaled = index.producer(root.args[0]), index.user(root)
    lowered = scaled is not None and is_cast(scaled) and root.dtype == FLOAT32 != scaled.dtype
    rounded = root if lowered else None
    if rounded is not None and scaled is not None:  # the root alone returns to the model's dtype
        root, scaled = scaled, index.user(scaled)
    parts = split_number(shifted, index.producer) if shifted is not None and shifted.op == "add" else None
    if shifted is None or parts is None or scaled is None:
        return None
    statistic, epsilon = parts
    square = index.producer(statistic.args[0]) if statistic.args else None
    if square is None or not over_last(statistic, square):
        return None
    covered = [root, shifted, statistic, scaled, *([rounded] if rounded is not None else [])]
    if statistic.op == "var":
        centred, squared = _other_operand(index, scaled, root, inverse), None
        if statistic.kwargs.get("unbiased", True) and statistic.kwargs.get("correction", 1) != 0:
            return None
    else:
        centred, squared = _square_root(index, square), square
        covered.append(square)
    if centred is None or not _multiplies(index, scaled, centred, root, inverse):
        return None
    source = _uncentred(index, centred, covered)
    if statistic.op == "sum":
        kind = "l2" if source is None else None
    elif squared is None:
        kind = "layer" if source is not None and _same(index, source, square) else None
    else:
        kind = {"mean": "rms" if source is None else "layer"}.get(statistic.op)
    if kind is None:
        return None
    return _Core(kind, source or centred, scaled, covered, epsilon, rounded=rounded is not None)


def _square_root(index: Index, node: Node) -> Node | None:
    """The y of ``y ** 2``, ``y * y`` or ``square(y)``."""
    if node.op == "square" or (node.op == "pow" and equal(number(node.args[1]), 2)):
        return index.producer(node.args[0])
    if node.op == "mul" and node.args[0] == node.args[1]:
        return index.producer(node.args[0])
    return None


def _other_operand(index: Index, scaled: Node, root: Node, inverse: bool) -> Node | None:
    """The y of ``y * root``, or of ``y / root``."""
    if len(scaled.args) != 2 or scaled.kwargs or scaled.op != ("mul" if inverse else "div"):
        return None
    left, right = index.producer(scaled.args[0]), index.producer(scaled.args[1])
    if right is root:
        return left
    return right if left is root and inverse else None


def _multiplies(index: Index, scaled: Node, y: Node, root: Node, inverse: bool) -> bool:
    other = _other_operand(index, scaled, root, inverse)
    return other is not None and _same(index, other, y)


def _same(index: Index, left: Node, right: Node) -> bool:
    """Whether two tensors hold the same numbers: one tensor, up to exact casts, or one subtraction done twice."""
    left, right = _uncast(index, left), _uncast(index, right)
    if left is right:
        return True
    return left.op == right.op == "sub" and left.args == right.args and left.kwargs == right.kwargs


def _uncast(index: Index, node: Node) -> Node:
    """The tensor before casts to float32, which lose nothing."""
    while node.op == "to" and node.dtype == FLOAT32:
        before = index.producer(node.args[0])
        if before is None or before.dtype == DType("float64"):
            break
        node = before
    return node


def _uncentred(index: Index, centred: Node, covered: list[Node]) -> Node | None:
    """The x of ``x - mean(x)``; the nodes are added to ``covered``."""
    if centred.op != "sub" or len(centred.args) != 2 or centred.kwargs:
        return None
    source, mean = index.producer(centred.args[0]), index.producer(centred.args[1])
    if source is None or mean is None or mean.op != "mean" or not over_last(mean, source):
        return None
    averaged = index.producer(mean.args[0])
    if averaged is None or not _same(index, averaged, source):
        return None
    covered.extend((mean, *(index.nodes[each] for each in index.users[mean.id] if each in index.nodes)))
    return source


def _operator(index: Index, node: Node) -> _Core | None:
    """``layer_norm(x, [size], weight, bias, eps)`` and ``rms_norm(x, [size], weight, eps)``."""
    kind = _OPERATORS[node.op]
    source = index.producer(node.args[0])
    shape = argument(node, 1)
    epsilon = number(argument(node, 4, 1e-5) if kind == "layer" else argument(node, 3))
    one_dimension = number(shape) is not None or (isinstance(shape, list | tuple) and len(shape) == 1)
    if source is None or epsilon is None or not one_dimension:
        return None
    core = _Core(kind, source, node, [node], epsilon)
    weight, bias = argument(node, 2), argument(node, 3) if kind == "layer" else None
    if weight is not None:
        core.weight = _weight(index, weight, node)
        if core.weight is None:
            return None
    if bias is not None:
        core.bias = _vector(index, index.producer(bias), node)
        if core.bias is None:
            return None
    return core


def _weight(index: Index, arg: Any, scaled: Node) -> _Weight | None:
    """A weight ``w`` or ``number + w`` for the last dimension, itself or upcast."""
    node, offset, covered = index.producer(arg), 0.0, []
    dtype = node.dtype if node is not None else None
    while node is not None and node.op in ("to", "add"):
        covered.append(node)
        if node.op == "to":
            if node.dtype != FLOAT32:
                return None
            node = index.producer(node.args[0])
            continue
        parts = split_number(node, index.producer)
        if parts is None or offset:
            return None
        dtype = node.dtype
        node, offset = parts[0], float(unwrap(parts[1]))
    path = _vector(index, node, scaled)
    if path is None or node is None or node.shape is None:
        return None
    return _Weight(path, offset, dtype, node.shape[0], covered)


def _vector(index: Index, node: Node | None, like: Node) -> str | None:
    """The path of a parameter with one element for each of the last dimension."""
    shape, wanted = sizes(node), sizes(like)
    if node is None or node.op != "parameter" or shape is None or wanted is None or shape != wanted[-1:]:
        return None
    return str(node.args[0])


def _finish(index: Index, core: _Core) -> Norm | None:
    """Follows a normalised tensor through its weight, its bias and its cast back to the dtype of the norm's input."""
    upcast = core.source
    source = _uncast(index, upcast)
    covered = list(core.covered)
    if source is not upcast:
        covered.append(upcast)
    covered.extend(core.weight.covered if core.weight else ())
    computed = core.scaled.dtype
    current, weight, bias, cast = core.scaled, core.weight, core.bias, "root" if core.rounded else "none"
    if computed != source.dtype:
        cast = ""
    while (following := index.user(current)) is not None and not following.kwargs:
        if following.op == "to" and not cast and following.dtype == source.dtype:
            cast = "after_weight" if weight else "before_weight"
        elif following.op == "mul" and weight is None and bias is None and len(following.args) == 2:
            weight = _operand_weight(index, following, current)
            if weight is None:
                break
            covered.extend(weight.covered)
        elif following.op == "add" and bias is None and cast != "after_weight" and len(following.args) == 2:
            bias = _operand_bias(index, following, current)
            if bias is None:
                break
        else:
            break
        covered.append(following)
        current = following
    if not cast or current.dtype != source.dtype or (weight and not _rounds_as_said(weight, cast, source.dtype)):
        return None
    return Norm(
        kind=core.kind,
        input=source.id,
        output=current.id,
        nodes=index.exclusive(covered, current),
        epsilon=core.epsilon,
        weight=weight.path if weight else None,
        bias=bias,
        offset=weight.offset if weight else 0.0,
        cast=cast,
        size=widest(*(source.shape or ())[-1:], *([weight.size] if weight else [])),
        per_head=_splits_heads(index, source),
        frame=core.scaled.frame,
        where=core.scaled.where,
    )


def _operand_weight(index: Index, product: Node, current: Node) -> _Weight | None:
    for arg, other in (product.args, product.args[::-1]):
        if index.producer(other) is current and (weight := _weight(index, arg, current)):
            return weight
    return None


def _operand_bias(index: Index, total: Node, current: Node) -> str | None:
    for arg, other in (total.args, total.args[::-1]):
        if index.producer(other) is current and (path := _vector(index, index.producer(arg), current)):
            return path
    return None


def _rounds_as_said(weight: _Weight, cast: str, dtype: DType | None) -> bool:
    """Whether ``offset + weight`` was added in float32 for a product in float32, and in the input's dtype otherwise."""
    return not weight.offset or weight.dtype == (FLOAT32 if cast == "after_weight" else dtype)


def _splits_heads(index: Index, node: Node | None) -> bool:
    """Whether a tensor ``[..., heads, head_dim]`` comes from splitting the last dimension of a wider one."""
    node = index.strip(node, "transpose", "permute", "getitem", "item", "chunk", "split", "to")
    if node is None or node.op not in ("reshape", "unflatten"):
        return False
    before, after = sizes(index.producer(node.args[0])), sizes(node)
    return before is not None and after is not None and len(after) > len(before) and after[-1] < before[-1]
