"""Mixtures of experts: a router's logits, the experts it chooses for each token, and their weighted sum.

The sum is a loop over the experts that some token chose. Its body must be a gated feed-forward network on stacked
weights, and nothing else.
"""

from __future__ import annotations

from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Activation, Experts, Number
from kunport_codegen.graph import Node, Ref

from .index import Index, sizes, widest
from .pattern import Any, Cast, Match, OneOf, Op, Parameter

_LAST = OneOf(-1, 1)  # of two dimensions
_ROWS, _COLUMNS = Any("rows"), Any("columns")
_EXPERT = Any("expert")

# The experts that some token chose, ``[chosen, 1]``; ``chosen`` is one-hot, ``[experts, top_k, tokens]``.
_CHOSEN = Op("permute", Op("one_hot", Any("choice"), num_classes=Any("classes")), (2, 1, 0))
_VISITED = Op("nonzero", Op("gt", Op("sum", Any("chosen"), dim=OneOf((-1, -2), (-2, -1), [-1, -2], [-2, -1])), 0))

# One turn of the loop: the tokens (columns) that chose this expert as one of theirs (rows).
_PLACES = Op("where", Op("getitem", Any("chosen"), _EXPERT))
_HIDDEN = Op("linear", Op("getitem", Any("input"), _COLUMNS), Op("getitem", Parameter("gate_up"), _EXPERT))
_HALVES = Op("chunk", _HIDDEN, 2, dim=_LAST)
_OUTPUT = Op("linear", Op("mul", Any("activated"), Op("item", _HALVES, 1)), Op("getitem", Parameter("down"), _EXPERT))
_WEIGHTED = Op("mul", _OUTPUT, Op("getitem", Any("weights"), (_COLUMNS, _ROWS, None)))
_TURN = Op("index_add", Any("sum"), 0, _COLUMNS, Cast(_WEIGHTED))

# The router: scores of all experts and a choice of the best, or a choice and scores of the chosen.
_BEST = Op("topk", Any("scores"), Any("top_k"), dim=OneOf(None, 1), sorted=Any())
_RENORMALIZED = Op("div", Any("chosen_scores"), Op("sum", Any("chosen_scores"), dim=_LAST, keepdim=True))


def _softmax(of: Cast | Any) -> Cast:
    return Cast(Op("softmax", of, dim=_LAST, dtype=Any()))


def find_experts(index: Index, activations: list[Activation]) -> list[Experts]:
    """The mixtures of experts of a graph, in order."""
    activated = {each.output: each for each in activations}
    return [found for loop in index.in_order("loop") if (found := _experts(index, loop, activated)) is not None]


def _experts(index: Index, loop: Node, activated: dict[int, Activation]) -> Experts | None:
    match, result = Match(index), index.user(loop)
    activation = _visits(loop, match, activated)
    routing = _routing(match) if activation is not None else None
    if activation is None or routing is None or result is None or result.op != "item":
        return None
    logits, scoring, renormalize = routing
    weights = _weights(match)
    source, router = match.node("input"), index.producer(logits.args[1]) if logits.op == "linear" else None
    if source is None or weights is None or router is None or router.op != "parameter":
        return None
    covered = [*match.nodes.values(), *(index.nodes[each] for each in activation.nodes), loop, result]
    return Experts(
        input=source.id,
        logits=logits.id,
        router_weight=str(router.args[0]),
        output=result.id,
        nodes=index.exclusive(covered, result),
        experts=weights[0],
        top_k=match.bound["top_k"],
        scoring=scoring,
        renormalize=renormalize,
        gate_up=match.bound["gate_up"],
        down=match.bound["down"],
        activation=activation.name,
        frame=loop.frame,
        where=loop.where,
    )


def _visits(loop: Node, match: Match, activated: dict[int, Activation]) -> Activation | None:
    """Whether a loop visits the experts that some token chose and adds up their outputs; the activation if so."""
    body = loop.body
    if body is None or len(body.carried) != 1 or not match.matches(_VISITED, loop.args[0]):
        return None
    ((total, start, after),) = body.carried
    match.bound["sum"] = Ref(total)
    turn = match.matches(_TURN, after) and match.matches(_CHOSEN, match.bound["chosen"])
    if not turn or not match.matches(Op("getitem", Ref(body.variable), 0), match.bound["expert"]):
        return None
    places = all(match.matches(Op("item", _PLACES, k), match.bound[name]) for k, name in enumerate(("rows", "columns")))
    if not places or not _starts_at_zero(match, start):
        return None
    activation = activated.get(match.bound["activated"].id)
    halved = activation is not None and match.matches(Op("item", _HALVES, 0), Ref(activation.input))
    never = body.skip is None or match.matches(Op("eq", _EXPERT, Any("absent")), body.skip)
    return activation if halved and never else None


def _starts_at_zero(match: Match, start: object) -> bool:
    node, source = match.index.producer(start), match.node("input")
    if node is None or source is None or node.op not in ("zeros", "zeros_like"):
        return False
    match.nodes[node.id] = node
    return sizes(node) is not None and sizes(node) == sizes(source) and node.dtype == source.dtype


def _routing(match: Match) -> tuple[Node, str, bool] | None:
    """The node of the router's logits, the scoring, and whether the chosen weights are divided by their sum."""
    renormalize = match.matches(Cast(_RENORMALIZED), match.bound["weights"])
    chosen = match.bound["chosen_scores"] if renormalize else match.bound["weights"]
    if not match.matches(Op("item", _BEST, 1), match.bound["choice"]):
        return None
    scores, scoring = match.bound["scores"], "softmax"
    if match.matches(_softmax(Cast(Op("item", _BEST, 0))), chosen):
        renormalize = True  # a softmax of the chosen is the softmax of all, divided by the sum of the chosen
        match.bound["logits"] = scores
    elif not match.matches(Cast(Op("item", _BEST, 0)), chosen):
        return None
    elif match.matches(Cast(Op("sigmoid", Any("logits"))), scores):
        scoring = "sigmoid"
    elif not match.matches(_softmax(Any("logits")), scores):
        return None
    logits = match.index.strip(match.node("logits"), "to")
    return None if logits is None else (logits, scoring, renormalize)


def _weights(match: Match) -> tuple[Number, Number] | None:
    """The number of experts and their width, where the stacked weights and the choice agree on them."""
    gate_up, down = (match.index.graph.parameters.get(match.bound[name]) for name in ("gate_up", "down"))
    source = sizes(match.node("input"))
    if gate_up is None or down is None or source is None or len(gate_up.shape) != 3 or len(down.shape) != 3:
        return None
    experts, double, hidden = (unwrap(size) for size in gate_up.shape)
    if [unwrap(size) for size in down.shape] != [experts, hidden, double // 2] or source[1:] != (hidden,):
        return None
    absent = unwrap(match.bound.get("absent", experts))
    if absent != experts or unwrap(match.bound["classes"]) not in (experts, experts + 1):
        return None
    return widest(gate_up.shape[0], down.shape[0]), down.shape[2]
