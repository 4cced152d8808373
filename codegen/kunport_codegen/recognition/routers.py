"""Routers of mixtures of experts: which experts a token chooses, and the weight of each.

For given logits (and a learned correction) a router is a function of numbers. So whatever its source spells is
evaluated on random logits and compared with the formula; only the names of the numbers in it are read from the nodes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kunport_codegen.expression import Scalar, unwrap
from kunport_codegen.facts import Number
from kunport_codegen.graph import Node, Ref, refs

from .elementwise import Floats, sigmoid, softmax, softplus
from .evaluate import UnevaluableError, evaluate
from .index import Index, argument, combine, equal, number, sizes, split_number
from .spelling import spelled

SCORINGS: dict[str, Callable[[Floats], Floats]] = {
    "softmax": softmax,
    "sigmoid": sigmoid,
    "sqrt_softplus": lambda logits: np.sqrt(softplus(logits)),
    "none": lambda logits: logits,
}
GROUP_SCORES = ("max", "sum of top 2")
_PROJECTIONS = frozenset(("linear", "matmul"))
_ENDS = frozenset(("parameter", "input", "loop", "unknown", "mask"))


@dataclass(slots=True)
class Routing:
    """What `facts.Experts` says of a router; ``nodes`` are those between the logits and the chosen weights."""

    logits: Node
    scoring: str
    top_k: Number
    renormalize: bool
    epsilon: Number | None
    scale: Number
    correction_bias: str | None
    groups: Number | None
    top_groups: Number | None
    group_score: str | None
    nodes: list[Node]


@dataclass(slots=True, frozen=True)
class _Formula:
    """The formula that a router was found to follow, in plain numbers."""

    scoring: str
    renormalize: bool
    scale: float
    group_score: str | None


class Routers:
    """Reads routers; each spelling is judged once."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.judged: dict[Any, _Formula | None] = {}

    def read(self, weights: Any, choice: Any) -> Routing | None:
        """The router behind ``weights`` and ``choice``, both references to ``[tokens, top_k]``."""
        region = self._region(weights, choice)
        best = self._best(choice)
        if region is None or best is None:
            return None
        logits, bias, nodes = region
        groups = _groups(self.index, nodes, best)
        names = {logits.id: "logits", **({bias.id: "bias"} if bias else {})}
        key = sizes(logits), spelled(self.index, nodes, names), *(unwrap(each) for each in groups or ())
        if key not in self.judged:
            self.judged[key] = self._judge(logits, bias, weights.id, choice.id, groups)
        formula = self.judged[key]
        scale = None if formula is None else _scale(self.index, nodes, formula.scale)
        if formula is None or scale is None:
            return None
        return Routing(
            logits=logits,
            scoring=formula.scoring,
            top_k=best.args[1],
            renormalize=formula.renormalize,
            epsilon=_epsilon(self.index, nodes) if formula.renormalize else None,
            scale=scale,
            correction_bias=str(bias.args[0]) if bias else None,
            groups=groups[0] if groups else None,
            top_groups=groups[1] if groups else None,
            group_score=formula.group_score,
            nodes=nodes,
        )

    def _region(self, *wanted: Any) -> tuple[Node, Node | None, list[Node]] | None:
        """The logits, the learned correction of the choice, and the nodes from there to the wanted tensors."""
        index, found, ends = self.index, dict[int, Node](), dict[int, Node]()
        pending = [each.id for each in wanted if isinstance(each, Ref)]
        while pending:
            node = index.nodes.get(pending.pop())
            if node is None:
                return None
            if node.id in found or node.id in ends:
                continue
            if node.op in _PROJECTIONS or node.op in _ENDS:
                ends[node.id] = node
            else:
                found[node.id] = node
                pending.extend(refs((node.args, node.kwargs)))
        logits = [node for node in ends.values() if node.op in _PROJECTIONS]
        biases = [node for node in ends.values() if node.op == "parameter"]
        if len(logits) != 1 or len(biases) > 1 or len(logits) + len(biases) != len(ends):
            return None
        shape, bias = sizes(logits[0]), biases[0] if biases else None
        count = sizes(bias)
        if shape is None or len(shape) != 2 or (count is not None and int(np.prod(count)) != shape[1]):
            return None
        return logits[0], bias, list(found.values())

    def _best(self, choice: Any) -> Node | None:
        """The operator that chooses the experts of a token."""
        node = self.index.strip(self.index.producer(choice), "to")
        best = self.index.producer(node.args[0]) if node is not None and node.op == "item" else None
        return best if best is not None and best.op == "topk" else None

    def _judge(
        self, logits: Node, bias: Node | None, weights: int, choice: int, groups: tuple[Number, Number] | None
    ) -> _Formula | None:
        draw, shape = np.random.default_rng(0), sizes(logits)
        if shape is None or min(shape) < 1:
            return None
        known = {logits.id: (values := draw.standard_normal(shape))}
        correction = draw.standard_normal(shape[1])
        if bias is not None:
            known[bias.id] = correction.reshape(sizes(bias) or ())
        try:
            given = evaluate(self.index.nodes, weights, known)
            chosen = evaluate(self.index.nodes, choice, known)
        except UnevaluableError:
            return None
        if given.shape != chosen.shape or given.ndim != 2 or not given.size:
            return None
        for scoring, how in itertools.product(SCORINGS, GROUP_SCORES if groups else (None,)):
            scores = SCORINGS[scoring](values)
            selection = scores + correction if bias is not None else scores
            if how is not None and groups is not None:
                selection = within_groups(selection, unwrap(groups[0]), unwrap(groups[1]), how)
            best = np.argsort(-selection, axis=1)[:, : chosen.shape[1]]
            if not np.array_equal(np.sort(best), np.sort(chosen)):
                continue
            kept = np.take_along_axis(scores, chosen, 1)
            for renormalize in (False, True):
                wanted = kept / kept.sum(1, keepdims=True) if renormalize else kept
                ratio = given / wanted
                if np.allclose(ratio, ratio[0, 0], rtol=1e-5):
                    return _Formula(scoring, renormalize, float(ratio[0, 0]), how)
        return None


def within_groups(selection: Floats, groups: int, top: int, how: str) -> Floats:
    """The scores ``[tokens, experts]`` of experts in a token's best groups, all others hidden."""
    grouped = selection.reshape(len(selection), groups, -1)
    ordered = np.sort(grouped, axis=2)[..., ::-1]
    best = np.argsort(-(ordered[..., 0] if how == "max" else ordered[..., :2].sum(2)), axis=1)[:, :top]
    kept = np.zeros((len(selection), groups, 1), dtype=bool)
    np.put_along_axis(kept, best[..., None], True, axis=1)
    hidden: Floats = np.where(kept, grouped, -np.inf).reshape(selection.shape)
    return hidden


def _groups(index: Index, nodes: list[Node], best: Node) -> tuple[Number, Number] | None:
    """The number of groups of experts, and how many of them a token may choose from."""
    for node in nodes:
        if node.op not in ("reshape", "unflatten") or node.shape is None or len(node.shape) != 3:
            continue
        for chooser in nodes:
            scores = sizes(index.producer(chooser.args[0])) if chooser.op == "topk" else None
            if chooser is not best and scores is not None and scores[1:] == (unwrap(node.shape[1]),):
                count = number(argument(chooser, 1))
                return None if count is None else (node.shape[1], count)
    return None


def _scale(index: Index, nodes: list[Node], wanted: float) -> Number | None:
    """The number, or the product of numbers, that the weights were multiplied by; None if no node says it."""
    factors = list(_factors(index, nodes))
    together: Number = 1.0
    for each in factors:
        together = combine("mul", together, each) if together != 1.0 else each
    named = [each for each in (*factors, together) if np.isclose(float(unwrap(each)), wanted, rtol=1e-5)]
    configured = [each for each in named if isinstance(each, Scalar)]
    if named:
        return (configured or named)[0]
    return 1.0 if np.isclose(wanted, 1.0, rtol=1e-5) else None


def _factors(index: Index, nodes: list[Node]) -> Iterator[Number]:
    for node in nodes:
        parts = split_number(node, index.producer) if node.op in ("mul", "div") else None
        if parts is not None and node.op == "mul":
            yield parts[1]
        elif parts is not None and index.producer(node.args[0]) is not None and unwrap(parts[1]):
            yield combine("div", 1.0, parts[1])


def _epsilon(index: Index, nodes: list[Node]) -> Number | None:
    """What is added to the sum of the chosen weights, or the least that the sum may be."""
    for node in nodes:
        total = index.producer(node.args[0]) if node.args else None
        if total is None or total.op != "sum":
            continue
        if node.op == "add" and (parts := split_number(node, index.producer)) is not None:
            return parts[1]
        least = node.kwargs.get("min", argument(node, 1)) if node.op == "clamp" else None
        if number(least) is not None and not equal(least, 0):
            return number(least)
    return None
