"""Mixtures of experts: a router's logits, the experts it chooses for each token, and their weighted sum.

The sum is a loop over the experts that some token chose. Its body must be one feed-forward network on stacked weights
(`networks`) and one weight a token (`routers`), and nothing else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any as Anything

from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Experts, Number
from kunport_codegen.graph import Node, Ref

from .index import FLOAT32, Index, argument, axis, number, sizes, widest
from .networks import Network, Networks
from .pattern import Any, Cast, Match, OneOf, Op
from .routers import Routers, Routing

_ROWS, _COLUMNS = Any("rows"), Any("columns")
_EXPERT = Any("expert")

# The experts that some token chose, ``[chosen, 1]``; ``chosen`` is one-hot, ``[experts, top_k, tokens]``.
_CHOSEN = Op("permute", Op("one_hot", Any("choice"), num_classes=Any("classes")), (2, 1, 0))
_VISITED = Op("nonzero", Op("gt", Op("sum", Any("chosen"), dim=OneOf((-1, -2), (-2, -1), [-1, -2], [-2, -1])), 0))

# What gives places among scores as its second result, with the position of its dimension; and what hands places on.
_CHOOSING = {"topk": 2, "max": 1, "sort": 1}
_HANDING_ON = ("cat", "stack", "unsqueeze", "squeeze", "reshape", "to", "contiguous")

# One turn of the loop: the tokens (columns) that chose this expert as one of theirs (rows).
_PLACES = Op("where", Op("getitem", Any("chosen"), _EXPERT))
_TOKENS = Op("getitem", Any("input"), _COLUMNS)
_SHARE = Op("getitem", Any("weights"), (_COLUMNS, _ROWS, None))
_TURN = Op("index_add", Any("sum"), 0, _COLUMNS, Any("added"))


def find_experts(index: Index) -> list[Experts]:
    """The mixtures of experts of a graph, in order."""
    routers, networks = Routers(index), Networks(index)
    loops = index.in_order("loop")
    return [found for loop in loops if (found := _experts(index, loop, routers, networks)) is not None]


def _experts(index: Index, loop: Node, routers: Routers, networks: Networks) -> Experts | None:
    match, result = Match(index), index.user(loop)
    if result is None or result.op != "item" or not _visits(loop, match):
        return None
    network = _network(match, networks)
    if network is None:
        return None
    routing, source = routers.read(match.bound["weights"], match.bound["choice"]), match.node("input")
    output = _output(index, result, source)
    if source is None or output is None or not _starts_at_zero(match, loop, source):
        return None
    count = _count(match, network, source)
    top_k = _width(match, source)
    if count is None or top_k is None:
        return None
    if routing is not None and (sizes(routing.logits) or ())[1:] != (unwrap(count),):
        routing = None  # it also chooses among what is none of these experts
    covered = [*match.nodes.values(), *network.nodes, *(routing.nodes if routing else ()), loop, result, output]
    found = Experts(
        input=source.id,
        logits=None,
        router_weight="",
        output=output.id,
        nodes=index.exclusive(covered, output),
        experts=count,
        top_k=top_k,
        scoring=None,
        renormalize=False,
        gate_up=network.gate_up,
        down=network.down,
        activation=network.activation,
        frame=loop.frame,
        where=loop.where,
        gated=network.gated,
        packing=network.packing,
        transposed=network.transposed,
        gate_up_bias=network.gate_up_bias,
        down_bias=network.down_bias,
        limit=network.limit,
        up_offset=network.up_offset,
        weighted=match.bound["weighted"],
        weights=match.bound["weights"].id,
        choice=match.bound["choice"].id,
        absent="absent" in match.bound and not _all_are_experts(match, count),
    )
    return found if routing is None else _routed(index, found, routing)


def _routed(index: Index, found: Experts, routing: Routing) -> Experts:
    """A mixture with the formula of its router."""
    return replace(
        found,
        logits=routing.logits.id,
        router_weight=_parameter(index, routing.logits.args[1]),
        top_k=routing.top_k,
        scoring=routing.scoring,
        renormalize=routing.renormalize,
        correction_bias=routing.correction_bias,
        groups=routing.groups,
        top_groups=routing.top_groups,
        group_score=routing.group_score,
        scale=routing.scale,
        epsilon=routing.epsilon,
    )


def _width(match: Match, source: Node) -> Number | None:
    """How many experts are chosen for a token, each with a weight. What is chosen has a class, and so is an expert."""
    weights, choice, tokens = match.node("weights"), match.node("choice"), sizes(source)
    shape = sizes(choice)
    if choice is None or shape is None or tokens is None or len(shape) != 2:
        return None
    return number((choice.shape or ())[1]) if shape[0] == tokens[0] and sizes(weights) == shape else None


def _all_are_experts(match: Match, count: Number) -> bool:
    """Whether all that is chosen are places among as many scores as there are experts."""
    index, pending = match.index, [match.bound["choice"]]
    while pending:
        node = index.producer(pending.pop())
        if node is None:
            return False
        if node.op in _HANDING_ON:
            pending += node.args[0] if isinstance(node.args[0], list | tuple) else [node.args[0]]
            continue
        best = index.producer(node.args[0]) if node.op == "item" and node.args[1] == 1 else None
        if best is None or best.op not in _CHOOSING:
            return False
        scores = sizes(index.producer(best.args[0]))
        dim = best.kwargs.get("dim", argument(best, _CHOOSING[best.op], -1))
        if scores is None or axis(dim, len(scores)) != -1 or scores[-1] != unwrap(count):
            return False
    return True


def _output(index: Index, result: Node, source: Node | None) -> Node | None:
    """The sum in the dtype of the tokens, which may have been added up in float32."""
    if source is None or result.dtype == source.dtype:
        return result
    cast = index.user(result)
    return cast if cast is not None and cast.op == "to" and cast.dtype == source.dtype else None


def _visits(loop: Node, match: Match) -> bool:
    """Whether a loop visits the experts that some token chose and adds something to those tokens."""
    body = loop.body
    if body is None or len(body.carried) != 1:
        return False
    alone = match.matches(Op("squeeze", _VISITED, -1), loop.args[0])  # each row is a number, not a row of one
    if not alone and not match.matches(_VISITED, loop.args[0]):
        return False
    ((total, _, after),) = body.carried
    match.bound["sum"] = Ref(total)
    turn = match.matches(_TURN, after) and match.matches(_CHOSEN, match.bound["chosen"])
    row = Ref(body.variable) if alone else Op("getitem", Ref(body.variable), 0)
    if not turn or not _places(match) or not match.matches(row, match.bound["expert"]):
        return False
    return body.skip is None or match.matches(Op("eq", _EXPERT, Any("absent")), body.skip)


def _places(match: Match) -> bool:
    """Whether columns are the tokens that chose the expert, and the rows (bound too) as which of theirs."""
    columns = match.node("columns")
    if columns is None or not match.matches(Op("item", _PLACES, 1), match.bound["columns"]):
        return False
    places = columns.args[0].id
    rows = [user for user in match.index.users[places] if match.index.nodes[user].args == (Ref(places), 0)]
    return len(rows) == 1 and match.matches(Op("item", _PLACES, 0), match.bound.setdefault("rows", Ref(rows[0])))


def _network(match: Match, networks: Networks) -> Network | None:
    """The network of one expert, on the tokens of which the router weights either what goes in or what comes out."""
    if match.matches(Cast(Op("mul", Any("output"), Cast(_SHARE))), match.bound["added"]):
        match.bound["weighted"] = "output"
        output = match.bound["output"]
    else:
        output = match.bound["added"]
    node = match.index.producer(output)
    network = networks.read(node, match.bound["expert"]) if node is not None else None
    if network is None:
        return None
    if "weighted" not in match.bound:
        match.bound["weighted"] = "input"
        weighted = match.matches(Cast(Op("mul", Cast(_TOKENS), Cast(_SHARE))), network.input)
        return network if weighted else None
    return network if match.matches(_TOKENS, network.input) else None


def _starts_at_zero(match: Match, loop: Node, source: Node) -> bool:
    assert loop.body is not None, "a loop that visits experts has a body"
    node = match.index.producer(loop.body.carried[0][1])
    if node is None or node.op not in ("zeros", "zeros_like"):
        return False
    match.nodes[node.id] = node
    return sizes(node) is not None and sizes(node) == sizes(source) and node.dtype in (source.dtype, FLOAT32)


def _count(match: Match, network: Network, source: Node) -> Number | None:
    """The number of experts, where the stacked weights and the classes of the choice agree on it."""
    tokens = sizes(source)
    experts, _, hidden = network.sizes
    if tokens is None or tokens[1:] != (hidden,):
        return None
    absent = unwrap(match.bound.get("absent", experts))
    if absent != experts or unwrap(match.bound["classes"]) not in (experts, experts + 1):
        return None
    return widest(*network.counts)


def _parameter(index: Index, arg: Anything) -> str:
    node = index.strip(index.producer(arg), "to", "transpose", "t")
    return str(node.args[0]) if node is not None and node.op == "parameter" else ""
