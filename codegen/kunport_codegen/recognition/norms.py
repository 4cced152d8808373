"""Normalisations over the last dimension: RMS, layer and L2 norms, spelled out or as one operator of torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Norm, Number
from kunport_codegen.graph import DType, Node

from .index import FLOAT32, Index, argument, axis, equal, is_cast, number, over_last, sizes, split_number, widest
from .norm_weights import Weight, multiplied, operand_bias, operand_weight, read_weight, rounds_as_said, vector

_SPELLED = ("rsqrt", "sqrt", "pow")
_LENGTHS = ("norm", "vector_norm", "linalg_vector_norm")
_OPERATORS = {"layer_norm": "layer", "rms_norm": "rms"}
# What torch's rms_norm takes where no epsilon is given: the smallest step of float32, which it computes in. Before, it
# was that of the tensor's own dtype, so that only torch itself can be relied on.
STEP = 2.0**-23


def find_norms(index: Index) -> list[Norm]:
    """The norms of a graph, in order.

    A norm is recognised as ``x * rsqrt(statistic(x) + eps)``, with the weight, the bias and the casts that follow it.
    """
    found = []
    for node in index.in_order(*_SPELLED, *_READERS):
        core = _READERS.get(node.op, _spelled_out)(index, node)
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
    weight: Weight | None = None
    bias: str | None = None
    rounded: bool = False


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
        centred, squared = _centred(index, square, _other_operand(index, scaled, root, inverse)), None
        if statistic.kwargs.get("unbiased", True) and statistic.kwargs.get("correction", 1) != 0:
            return None
    else:
        centred, squared = _square_root(index, square), square
        covered.append(square)
    weight = _weighted_before(index, scaled, centred, root, inverse) if centred is not None else None
    if centred is None or (weight is None and not _multiplies(index, scaled, centred, root, inverse)):
        return None
    source = _uncentred(index, centred, covered)
    if statistic.op == "sum":
        kind = "l2" if source is None else None
    elif squared is None:
        of_source = source is not None and (_same(index, source, square) or _same(index, centred, square))
        kind = "layer" if of_source else None
    else:
        kind = {"mean": "rms" if source is None else "layer"}.get(statistic.op)
    if kind is None:
        return None
    if weight is not None:
        covered.append(weight[1])
    return _Core(kind, source or centred, scaled, covered, epsilon, weight and weight[0], rounded=rounded is not None)


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


def _weighted_before(index: Index, scaled: Node, y: Node, root: Node, inverse: bool) -> tuple[Weight, Node] | None:
    """The weight of ``weight * y / root``, with the node that multiplies by it."""
    product = _other_operand(index, scaled, root, inverse)
    if product is None or product.op != "mul" or len(product.args) != 2 or index.user(product) is not scaled:
        return None
    for arg, other in (product.args, product.args[::-1]):
        of, weight = index.producer(other), read_weight(index, arg, product)
        if of is not None and weight is not None and _same(index, of, y):
            return weight, product
    return None


def _centred(index: Index, square: Node, other: Node | None) -> Node | None:
    """The ``x - mean(x)`` that goes with a variance: what it is of, which may be x itself, or what is divided."""
    return square if square.op == "sub" and other is not square else other


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
    given = argument(node, 4, 1e-5) if kind == "layer" else argument(node, 3)
    epsilon = STEP if kind == "rms" and given is None else number(given)
    one_dimension = number(shape) is not None or (isinstance(shape, list | tuple) and len(shape) == 1)
    if source is None or epsilon is None or not one_dimension:
        return None
    core = _Core(kind, source, node, [node], epsilon)
    weight, bias = argument(node, 2), argument(node, 3) if kind == "layer" else None
    if weight is not None:
        core.weight = read_weight(index, weight, node)
        if core.weight is None:
            return None
    if bias is not None:
        core.bias = vector(index, index.producer(bias), node)
        if core.bias is None:
            return None
    return core


def _bounded(index: Index, length: Node) -> _Core | None:
    """``x / max(length of x, epsilon)``, as torch's normalize has it, or of the root mean square."""
    source, bound = index.producer(length.args[0]), index.user(length)
    if source is None or bound is None or len(length.args) > 1 or not over_last(length, source):
        return None
    if set(length.kwargs) - {"dim", "keepdim", "p"} or unwrap(length.kwargs.get("p", 2)) != 2:
        return None
    covered, kind = [length], "l2"
    if _scales_by(index, bound, source, -0.5):
        covered.append(bound)
        bound, kind = index.user(bound), "rms"
    if bound is None:
        return None
    least = bound.kwargs.get("min", argument(bound, 1)) if bound.op in ("clamp", "clamp_min") else None
    scaled, epsilon = index.user(bound), number(least)
    if epsilon is None or len(bound.args) + len(bound.kwargs) != 2 or scaled is None:
        return None
    if _other_operand(index, scaled, bound, inverse=False) is not source:
        return None
    return _with_size(index, _Core(kind, source, scaled, [*covered, bound, scaled], epsilon))


def _normalized(index: Index, node: Node) -> _Core | None:
    """The normalize of torch over the last dimension."""
    source = index.producer(node.args[0])
    if source is None or source.shape is None or len(node.args) > 1 or unwrap(node.kwargs.get("p", 2)) != 2:
        return None
    epsilon = number(node.kwargs.get("eps", 1e-12))
    if epsilon is None or axis(node.kwargs.get("dim", 1), len(source.shape)) != -1:
        return None
    return _with_size(index, _Core("l2", source, node, [node], epsilon))


def _with_size(index: Index, core: _Core) -> _Core:
    """A vector of length 1 multiplied by the root of its size is one of mean square 1."""
    product = index.user(core.scaled)
    if core.kind == "l2" and product is not None and _scales_by(index, product, core.source, 0.5):
        return replace(core, kind="rms", scaled=product, covered=[*core.covered, product])
    return core


def _scales_by(index: Index, product: Node, of: Node, exponent: float) -> bool:
    """Whether an operator multiplies by a power of the size of a tensor's last dimension."""
    parts, size = split_number(product, index.producer) if product.op in ("mul", "div") else None, sizes(of)
    if parts is None or not size or (product.op == "div" and index.producer(product.args[0]) is None):
        return False
    return math.isclose(unwrap(parts[1]), size[-1] ** (exponent if product.op == "mul" else -exponent))


_READERS = {
    **dict.fromkeys(_OPERATORS, _operator),
    **dict.fromkeys(_LENGTHS, _bounded),
    "normalize": _normalized,
}


def _finish(index: Index, core: _Core) -> Norm | None:
    """Follows a normalised tensor through its weight, its bias and its cast back to the dtype of the norm's input."""
    joined = _joined(index, core.scaled) if core.weight is None and core.bias is None else None
    if joined is not None and (found := _either(index, core, joined)) is not None and found.weight:
        return found
    return _either(index, core, None)


def _either(index: Index, core: _Core, joined: Node | None) -> Norm | None:
    """A norm from before its upcast to after its cast back, or one of what was upcast before, and stays so."""
    source = _whole(index, core.source) if joined is not None else core.source
    inner = _uncast(index, source)
    found = _follow(index, core, joined, inner, source)
    if found is not None or inner is source:
        return found
    found = _follow(index, core, joined, source, source)
    returns = found is not None and any(
        index.nodes[each].op == "to" for each in index.users.get(found.output, ()) if each in index.nodes
    )
    return None if returns else found


def _joined(index: Index, scaled: Node) -> Node | None:
    """The node that joins the last two dimensions of a normalised tensor, which were groups of one vector."""
    node, shape = index.user(scaled), sizes(scaled)
    joins = node is not None and node.op in ("reshape", "flatten") and shape is not None and len(shape) > 2
    return node if joins and shape and sizes(node) == (*shape[:-2], shape[-2] * shape[-1]) else None


def _whole(index: Index, groups: Node) -> Node:
    """The tensor whose last dimension was taken apart into groups; the groups where none was."""
    before, shape = index.producer(groups.args[0]) if groups.op in ("reshape", "unflatten") else None, sizes(groups)
    whole = before is not None and shape is not None and sizes(before) == (*shape[:-2], shape[-2] * shape[-1])
    return before if before is not None and whole else groups


def _follow(index: Index, core: _Core, joined: Node | None, source: Node, upcast: Node) -> Norm | None:
    covered = [*core.covered, *([core.source] if upcast is not core.source else [])]
    if source is not upcast:
        covered.append(upcast)
    covered.extend(core.weight.covered if core.weight else ())
    computed = core.scaled.dtype
    current, weight, bias, cast = core.scaled, core.weight, core.bias, "root" if core.rounded else "none"
    if computed != source.dtype:
        cast = ""
    if joined is not None:
        covered.append(joined)
        current = joined
    while (following := index.user(current)) is not None and not following.kwargs:
        if following.op == "to" and not cast and following.dtype == source.dtype:
            cast = "after_weight" if weight else "before_weight"
        elif following.op == "mul" and weight is None and bias is None and len(following.args) == 2:
            weight = operand_weight(index, following, current)
            if weight is None:
                break
            covered.extend(weight.covered)
        elif following.op == "add" and bias is None and cast != "after_weight" and len(following.args) == 2:
            bias = operand_bias(index, following, current)
            if bias is None:
                break
        else:
            break
        covered.append(following)
        current = following
    if weight is None and bias is None and multiplied(index, current):
        return None
    if not cast or current.dtype != source.dtype or (weight and not rounds_as_said(weight, cast, source.dtype)):
        return None
    groups = (core.scaled.shape or ())[-2] if joined is not None else weight.groups if weight else None
    sizes = [*(core.source.shape or ())[-1:], *([weight.size] if weight and not groups else [])]
    if not sizes:  # of a tensor that the analysis does not know
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
        size=widest(*sizes),
        per_head=_splits_heads(index, source) and not groups,
        frame=core.scaled.frame,
        where=core.scaled.where,
        groups=groups,
    )


def _splits_heads(index: Index, node: Node | None) -> bool:
    """Whether a tensor ``[..., heads, head_dim]`` comes from splitting the last dimension of a wider one."""
    node = index.strip(node, "transpose", "permute", "getitem", "item", "chunk", "split", "to")
    if node is None or node.op not in ("reshape", "unflatten"):
        return False
    before, after = sizes(index.producer(node.args[0])), sizes(node)
    return before is not None and after is not None and len(after) > len(before) and after[-1] < before[-1]
