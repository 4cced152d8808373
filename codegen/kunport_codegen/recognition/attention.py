"""Softmax attention, from query, key and value to the combined heads.

Every node between them must be one that the fact can say: scaling, a softcap, a mask, sinks, repeated key-value heads,
casts and transpositions. Anything else on the way, or another reader of the scores, and there is no fact.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Attention, Number
from kunport_codegen.graph import Node, Ref

from .index import FLOAT32, MODEL, Index, axis, combine, is_cast, number, sizes, swaps_axes
from .pattern import Cast, Match, Op, Parameter
from .scores import factor, read_scores, remerges, spelled_softmax


def find_attentions(index: Index) -> list[Attention]:
    """The attentions of a graph, in order."""
    softmaxes = [(node, [node]) for node in index.in_order("softmax")]
    spelled = [each for node in index.in_order("div") if (each := spelled_softmax(index, node)) is not None]
    found = [fact for each in (*softmaxes, *spelled) if (fact := _attention(index, *each)) is not None]
    return sorted(found, key=lambda fact: index.order[fact.output])


@dataclass(slots=True)
class Operand:
    """A tensor of an attention before it was scaled, upcast or repeated."""

    tensor: Node
    factors: list[Number] = field(default_factory=list)
    covered: list[Node] = field(default_factory=list)
    repeated: bool = False
    transposed: bool = False


def _attention(index: Index, softmax: Node, spelling: list[Node]) -> Attention | None:
    scores = read_scores(index, softmax)
    weighted = _weighted(index, softmax, dropped=scores is not None and scores.sinks is not None)
    if scores is None or weighted is None:
        return None
    product = weighted[-1]
    query, key = operand(index, scores.operands[0]), _key(index, scores.operands[1])
    value = operand(index, index.producer(product.args[1]), scales=False, repeats=True)
    if query is None or key is None or value is None:
        return None
    heads = grouped(query, key, value, product)
    sunk = _sunk(index, softmax, product) if scores.sinks is None else None
    output, heads_first, tail = combined_heads(index, sunk.product if sunk is not None else product)
    tail = [*tail, *sunk.covered] if sunk is not None else tail
    covered = [*spelling, *weighted, *tail, *scores.covered, *query.covered, *key.covered, *value.covered]
    shared = scores.mask.covered if scores.mask else ()
    if scores.bias is not None:
        shared = (*shared, *scores.bias.covered)
    nodes = index.exclusive((*covered, *shared), output)
    if scores.bias is not None and scores.bias.choice is not None:
        nodes |= {scores.bias.choice.id}  # also where several layers share it
    if heads is None or not _of_one_dtype(output, value.tensor) or not {node.id for node in covered} <= nodes:
        return None
    return Attention(
        query=query.tensor.id,
        key=key.tensor.id,
        value=value.tensor.id,
        output=output.id,
        heads_first=heads_first,
        nodes=nodes,
        heads=heads[0],
        kv_heads=heads[1],
        head_dim=heads[2],
        value_dim=heads[3],
        scale=_scale([*scores.factors, *query.factors, *key.factors]),
        softcap=scores.softcap,
        mask=scores.mask.kind if scores.mask else "bidirectional",
        window=scores.mask.window if scores.mask else None,
        sinks=sunk.sinks if sunk is not None else scores.sinks,
        upcast=softmax.dtype == FLOAT32,
        frame=softmax.frame,
        where=softmax.where,
        bias=scores.bias.tensor.id if scores.bias is not None else None,
        alibi=scores.bias is not None and scores.bias.alibi,
        selection=scores.bias.choice.id if scores.bias is not None and scores.bias.choice is not None else None,
        key_transposed=key.transposed,
    )


def _of_one_dtype(output: Node, value: Node) -> bool:
    """Whether the combined heads have the dtype of the values.

    torch multiplies matrices of one dtype alone: weights in float32 with values in the model's dtype, which are never
    joined again by a cast, are source that runs in float32.
    """
    return output.dtype == value.dtype or (output.dtype == FLOAT32 and value.dtype == MODEL)


@dataclass(slots=True)
class _Sunk:
    """The combined heads after a share of the weights went to sinks."""

    product: Node
    sinks: str
    covered: list[Node]


def _sunk(index: Index, softmax: Node, product: Node) -> _Sunk | None:
    """``(weights @ value) * sigmoid(logsumexp(scores) - sinks)``: the same as sinks that are dropped."""
    match, shared = Match(index), index.user(product)
    total = Op("logsumexp", softmax.args[0], dim=-1)
    share = Op(
        "unsqueeze", Cast(Op("sigmoid", Cast(Op("sub", total, Op("reshape", Parameter("sinks"), (1, -1, 1)))))), -1
    )
    if shared is None or not match.matches(Op("mul", Ref(product.id), Cast(share)), Ref(shared.id)):
        return None
    heads, shape = index.graph.parameters[match.bound["sinks"]].shape, sizes(product)
    if shape is None or len(shape) != 4 or [unwrap(size) for size in heads] != [shape[1]]:
        return None
    return _Sunk(shared, match.bound["sinks"], list(match.nodes.values()))


def _scale(factors: list[Number]) -> Number:
    return functools.reduce(functools.partial(combine, "mul"), factors) if factors else 1.0


def _weighted(index: Index, softmax: Node, dropped: bool) -> list[Node] | None:
    """The nodes from the softmax to the product of its weights with the values, which is the last."""

    def accept(node: Node) -> bool:
        return is_cast(node) or node.op == "getitem" or remerges(index, node)

    chain = index.follow(softmax, accept)
    product = index.user(chain[-1] if chain else softmax)
    drops = [node for node in chain if node.op == "getitem"]
    if product is None or product.op not in ("matmul", "bmm") or len(drops) != (1 if dropped else 0):
        return None
    if drops and drops[0].args[1] not in ((Ellipsis, slice(None, -1, None)), [Ellipsis, slice(None, -1, None)]):
        return None
    weights = chain[-1] if chain else softmax
    return [*chain, product] if product.args[0] == Ref(weights.id) else None


def operand(index: Index, node: Node | None, scales: bool = True, repeats: bool = False) -> Operand | None:
    """The tensor behind casts to float32, scaling and repetition, as far as nothing else reads what is in between."""
    if node is None:
        return None
    found = Operand(node)
    while (node := found.tensor) is not None and index.user(node) is not None:
        step: Node | None = None
        covered = [node]
        if (node.op == "to" and node.dtype == FLOAT32) or _unmerges(index, node):
            step = index.producer(node.args[0])
        elif scales and (scaled := factor(index, node)) is not None:
            step, value = scaled
            found.factors.append(value)
        elif repeats and not found.repeated and (repeat := _repeated(index, node)) is not None:
            step, covered = repeat
            found.repeated = True
        if step is None:
            break
        found.covered.extend(covered)
        found.tensor = step
    return found


def _unmerges(index: Index, node: Node) -> bool:
    """Whether an operator merges batch and heads, or takes one of them apart, of ``[batch, heads, x, y]``."""
    return remerges(index, node) and len(sizes(index.producer(node.args[0])) or ()) == 4


def _key(index: Index, node: Node | None) -> Operand | None:
    """The key behind its transposition; itself where one permutation split it into heads and transposed it."""
    outside = operand(index, node)
    if outside is not None and outside.tensor.op == "permute" and _splits_transposed(outside.tensor):
        outside.transposed = True
        return outside
    if outside is None or not swaps_axes(outside.tensor, -2, -1):
        return None
    key = operand(index, index.producer(outside.tensor.args[0]), repeats=True)
    if key is not None:
        key.factors.extend(outside.factors)
        key.covered.extend((*outside.covered, outside.tensor))
    return key


def _splits_transposed(node: Node) -> bool:
    """Whether an operator makes ``[batch, heads, d, sequence]`` of ``[batch, sequence, heads, d]``."""
    return [axis(each, 4) for each in node.args[1]] == [-4, -2, -1, -3]


def _repeated(index: Index, node: Node) -> tuple[Node, list[Node]] | None:
    """The x and the nodes where each head of ``x [batch, heads, sequence, d]`` is repeated n times in place."""
    if node.op == "repeat_interleave":
        source = index.producer(node.args[0])
        each = number(node.args[1]) is not None and axis(node.kwargs.get("dim"), 4) == -3
        return (source, [node]) if source is not None and each else None
    if node.op in ("expand", "broadcast_to"):
        source = index.producer(node.args[0])
        before, after = sizes(source), sizes(node)
        if source is None or before is None or after is None or len(before) != 4 or len(after) != 4:
            return None
        return (source, [node]) if before[1] == 1 and (before[0], *before[2:]) == (after[0], *after[2:]) else None
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


def grouped(
    query: Operand, key: Operand, value: Operand, product: Node
) -> tuple[Number, Number, Number, Number] | None:
    """Heads, key-value heads and the sizes of a head, if the shapes are those of grouped-query attention.

    A single key-value head may also serve all heads by broadcasting.
    """
    shapes = [each.tensor.shape or () for each in (query, key, value)]
    if any(len(shape) != 4 for shape in shapes):
        return None
    if key.transposed:
        shapes[1] = (*shapes[1][:2], shapes[1][3], shapes[1][2])
    (batch, heads, length, dim), (_, kv_heads, keys, key_dim), (*value_heads, value_dim) = (
        tuple(map(unwrap, shape)) for shape in shapes
    )
    if dim != key_dim or value_heads != [batch, kv_heads, keys] or not kv_heads or heads % kv_heads:
        return None
    repeats = all(each.repeated or kv_heads in (1, heads) for each in (key, value))
    merged = (batch * heads, length, value_dim) if product.op == "bmm" else (batch, heads, length, value_dim)
    if not repeats or sizes(product) != merged:
        return None
    return shapes[0][1], shapes[1][1], shapes[0][3], shapes[2][3]


def combined_heads(index: Index, product: Node) -> tuple[Node, bool, list[Node]]:
    """The combined heads after their transposition and cast, whether heads still come first, and the nodes there."""

    def accept(node: Node) -> bool:
        return is_cast(node) or swaps_axes(node, -3, -2) or _keeps_shape(index, node) or remerges(index, node)

    chain: list[Node] = []
    for node in index.follow(product, accept):
        chain.append(node)
        if swaps_axes(node, -3, -2) and len(node.shape or ()) == 4:
            return node, False, chain
    ends = [node for node in chain if node.op == "to" or remerges(index, node)]
    tail = chain[: chain.index(ends[-1]) + 1] if ends else []
    return (tail[-1] if tail else product), True, tail


def _keeps_shape(index: Index, node: Node) -> bool:
    return node.op == "reshape" and sizes(node) is not None and sizes(node) == sizes(index.producer(node.args[0]))
