"""Softmax attention, from query, key and value to the combined heads.

Every node between them must be one that the fact can say: scaling, a softcap, a mask, sinks, repeated key-value heads,
casts and transpositions. Anything else on the way, or another reader of the scores, and there is no fact.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import numpy as np

from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Attention, Number
from kunport_codegen.graph import Node

from .evaluate import UnevaluableError, evaluate
from .index import FLOAT32, Index, axis, combine, equal, is_cast, number, over_last, sizes, split_number, swaps_axes
from .masks import Mask, added_mask, filled_mask


def find_attentions(index: Index) -> list[Attention]:
    """The attentions of a graph, in order."""
    return [found for node in index.in_order("softmax") if (found := _attention(index, node)) is not None]


@dataclass(slots=True)
class _Scores:
    """What happens between ``query @ key.T`` and the softmax, read from its end."""

    product: Node
    factors: list[Number] = field(default_factory=list)
    softcap: Number | None = None
    mask: Mask | None = None
    sinks: str | None = None
    covered: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class _Operand:
    """A tensor of an attention before it was scaled, upcast or repeated."""

    tensor: Node
    factors: list[Number] = field(default_factory=list)
    covered: list[Node] = field(default_factory=list)
    repeated: bool = False


def _attention(index: Index, softmax: Node) -> Attention | None:
    scores = _scores(index, softmax)
    combined = _combined(index, softmax, dropped=scores is not None and scores.sinks is not None)
    if scores is None or combined is None:
        return None
    product, weighted = combined[-1], combined
    query = _operand(index, index.producer(scores.product.args[0]))
    key = _key(index, index.producer(scores.product.args[1]))
    value = _operand(index, index.producer(product.args[1]), scales=False, repeats=True)
    if query is None or key is None or value is None or not _shapes_agree(query, key, value, product):
        return None
    output, heads_first, tail = _output(index, product)
    covered = [softmax, *weighted, *tail, *scores.covered, *query.covered, *key.covered, *value.covered]
    inside = {node.id for node in covered}
    shared = scores.mask.covered if scores.mask else ()
    nodes = index.exclusive((*covered, *shared), output)
    if output.dtype != value.tensor.dtype or not inside <= nodes:
        return None
    shape, key_shape, value_shape = query.tensor.shape, key.tensor.shape, value.tensor.shape
    assert shape is not None
    assert key_shape is not None
    assert value_shape is not None
    return Attention(
        query=query.tensor.id,
        key=key.tensor.id,
        value=value.tensor.id,
        output=output.id,
        heads_first=heads_first,
        nodes=nodes,
        heads=shape[1],
        kv_heads=key_shape[1],
        head_dim=shape[3],
        value_dim=value_shape[3],
        scale=_scale([*scores.factors, *query.factors, *key.factors]),
        softcap=scores.softcap,
        mask=scores.mask.kind if scores.mask else "bidirectional",
        window=scores.mask.window if scores.mask else None,
        sinks=scores.sinks,
        upcast=softmax.dtype == FLOAT32,
        frame=softmax.frame,
        where=softmax.where,
    )


def _scale(factors: list[Number]) -> Number:
    return functools.reduce(functools.partial(combine, "mul"), factors) if factors else 1.0


def _scores(index: Index, softmax: Node) -> _Scores | None:
    """Walks from the softmax back to the product of query and key."""
    node = index.producer(softmax.args[0])
    if node is None or node.shape is None or len(node.shape) != 4 or axis(softmax.kwargs.get("dim"), 4) != -1:
        return None
    found = _Scores(node)
    masked_inside = False
    while node is not None and node.op != "matmul":
        covered = [node]
        if is_cast(node):
            following = index.producer(node.args[0])
        elif (capped := _softcap(index, node)) is not None:
            following, cap, covered = capped
            if found.factors or found.softcap is not None:
                return None
            found.softcap = cap
            masked_inside = True  # a mask from here on would be capped with the scores
        elif (factor := _factor(index, node)) is not None:
            following, value = factor
            found.factors.append(value)
        elif (shifted := _without_maximum(index, node)) is not None:
            following, covered = shifted
        elif (sunk := _sinks(index, node)) is not None:
            following, found.sinks, covered = sunk
            if found.mask is not None or found.factors or found.softcap is not None:
                return None
        elif (masked := added_mask(index, node) or filled_mask(index, node)) is not None:
            following, mask = masked
            scaled_with_scores = all(unwrap(factor) > 0 for factor in found.factors)  # what is hidden stays hidden
            if found.mask is not None or masked_inside or not scaled_with_scores:
                return None
            found.mask = mask
        else:
            return None
        found.covered.extend(covered)
        node = following
    if node is None:
        return None
    found.product = node
    found.covered.append(node)
    return found


def _factor(index: Index, node: Node) -> tuple[Node, Number] | None:
    """The tensor and the number of ``tensor * number`` or ``tensor / number``, the latter as its reciprocal."""
    parts = split_number(node, index.producer) if node.op in ("mul", "div") else None
    if parts is None or node.op == "mul":
        return parts
    if index.producer(node.args[0]) is None or unwrap(parts[1]) == 0:
        return None
    return parts[0], combine("div", 1.0, parts[1])


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
    if node.op != "sub" or len(node.args) != 2:
        return None
    source, maximum = index.producer(node.args[0]), index.producer(node.args[1])
    covered = [node]
    if maximum is not None and maximum.op == "item" and maximum.args[1] == 0:
        covered.append(maximum)
        maximum = index.producer(maximum.args[0])
    if source is None or maximum is None or maximum.op not in ("max", "amax") or source.shape is None:
        return None
    if index.producer(maximum.args[0]) is not source or not over_last(maximum, source):
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


def _combined(index: Index, softmax: Node, dropped: bool) -> list[Node] | None:
    """The nodes from the softmax to the product of its weights with the values, which is the last."""

    def accept(node: Node) -> bool:
        return is_cast(node) or node.op == "getitem"

    chain = index.follow(softmax, accept)
    product = index.user(chain[-1] if chain else softmax)
    drops = [node for node in chain if node.op == "getitem"]
    if product is None or product.op != "matmul" or len(drops) != (1 if dropped else 0):
        return None
    if drops and drops[0].args[1] not in ((Ellipsis, slice(None, -1, None)), [Ellipsis, slice(None, -1, None)]):
        return None
    weights = chain[-1] if chain else softmax
    return [*chain, product] if index.producer(product.args[0]) is weights else None


def _operand(index: Index, node: Node | None, scales: bool = True, repeats: bool = False) -> _Operand | None:
    """The tensor behind casts to float32, scaling and repetition, as far as nothing else reads what is in between."""
    if node is None:
        return None
    found = _Operand(node)
    while (node := found.tensor) is not None and index.user(node) is not None:
        step: Node | None = None
        covered = [node]
        if node.op == "to" and node.dtype == FLOAT32:
            step = index.producer(node.args[0])
        elif scales and (factor := _factor(index, node)) is not None:
            step, value = factor
            found.factors.append(value)
        elif repeats and not found.repeated and (repeat := _repeated(index, node)) is not None:
            step, covered = repeat
            found.repeated = True
        if step is None:
            break
        found.covered.extend(covered)
        found.tensor = step
    return found


def _key(index: Index, node: Node | None) -> _Operand | None:
    """The key behind its transposition."""
    outside = _operand(index, node)
    if outside is None or not swaps_axes(outside.tensor, -2, -1):
        return None
    key = _operand(index, index.producer(outside.tensor.args[0]), repeats=True)
    if key is not None:
        key.factors.extend(outside.factors)
        key.covered.extend((*outside.covered, outside.tensor))
    return key


def _repeated(index: Index, node: Node) -> tuple[Node, list[Node]] | None:
    """The x and the nodes where each head of ``x [batch, heads, sequence, d]`` is repeated n times in place."""
    if node.op == "repeat_interleave":
        source = index.producer(node.args[0])
        each = number(node.args[1]) is not None and axis(node.kwargs.get("dim"), 4) == -3
        return (source, [node]) if source is not None and each else None
    expanded = index.producer(node.args[0]) if node.op == "reshape" else None
    inserted = index.producer(expanded.args[0]) if expanded is not None and expanded.op == "expand" else None
    if expanded is None or inserted is None or not _inserts_dimension(inserted):
        return None
    source = index.producer(inserted.args[0])
    before, copies, after = sizes(source), sizes(expanded), sizes(node)
    if source is None or before is None or copies is None or len(before) != 4 or len(copies) != 5:
        return None
    if copies != (*before[:2], copies[2], *before[2:]) or after != (before[0], before[1] * copies[2], *before[2:]):
        return None
    return source, [node, expanded, inserted]


def _inserts_dimension(node: Node) -> bool:
    """Whether an operator makes ``[a, b, 1, c, d]`` of ``[a, b, c, d]``."""
    if node.op == "unsqueeze":
        return axis(node.args[1], 5) == -3
    whole = slice(None, None, None)
    if node.op != "getitem" or not isinstance(node.args[1], list | tuple):
        return False
    return tuple(node.args[1]) in ((whole, whole, None, whole, whole), (whole, whole, None), (..., None, whole, whole))


def _shapes_agree(query: _Operand, key: _Operand, value: _Operand, product: Node) -> bool:
    """Whether the tensors are those of grouped-query attention; one head may also serve all by broadcasting."""
    shapes = [sizes(each.tensor) for each in (query, key, value)]
    if any(shape is None or len(shape) != 4 for shape in shapes):
        return False
    (batch, heads, length, dim), (_, kv_heads, keys, key_dim), (*value_heads, value_dim) = (
        shape for shape in shapes if shape is not None
    )
    if dim != key_dim or tuple(value_heads) != (batch, kv_heads, keys) or heads % kv_heads:
        return False
    repeats = all(each.repeated or kv_heads in (1, heads) for each in (key, value))
    return repeats and sizes(product) == (batch, heads, length, value_dim)


def _output(index: Index, product: Node) -> tuple[Node, bool, list[Node]]:
    """The combined heads after their transposition and cast, whether heads still come first, and the nodes there."""

    def accept(node: Node) -> bool:
        return is_cast(node) or swaps_axes(node, -3, -2) or _keeps_shape(index, node)

    chain: list[Node] = []
    for node in index.follow(product, accept):
        chain.append(node)
        if swaps_axes(node, -3, -2):
            return node, False, chain
    casts = [node for node in chain if node.op == "to"]
    tail = chain[: chain.index(casts[0]) + 1] if casts else []
    return (tail[-1] if tail else product), True, tail


def _keeps_shape(index: Index, node: Node) -> bool:
    return node.op == "reshape" and sizes(node) is not None and sizes(node) == sizes(index.producer(node.args[0]))
