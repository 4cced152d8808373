"""Mixtures of experts whose experts are modules of a list, run one after another on the tokens that chose them.

However the source picks tokens (masks, places, one-hot matrices, every expert on every token), the sum is a function of
the tokens, the choice and the weights. So it is evaluated with each expert's network replaced by a factor of its own,
and compared with the sum over chosen experts of weight times factor times token.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from kunport_codegen.facts import Experts
from kunport_codegen.graph import Node, Ref

from .evaluate import UnevaluableError, evaluate
from .index import Index, sizes
from .module_networks import ModuleNetwork, ModuleNetworks
from .repeats import layer_calls
from .routers import Routers, Routing
from .rules import Array

_TRIED = 8  # results and weights that are tried for each router


def find_listed_experts(index: Index) -> list[Experts]:
    """The mixtures of experts of a graph whose experts are modules of their own, in order."""
    items = [node for node in index.in_order("item") if node.args[1] == 1 and _chooses(index, node)]
    if not items:
        return []
    routers, networks, layers = Routers(index), ModuleNetworks(index), _Layers(index)
    return [found for choice in items if (found := _mixture(index, choice, routers, networks, layers)) is not None]


class _Layers:
    """What may belong to a mixture: the live nodes of the layer that chooses, of the whole graph outside of layers."""

    def __init__(self, index: Index) -> None:
        self._calls = layer_calls(index.graph)
        self._nodes: dict[int, list[int]] = {}
        for identifier in sorted(index.live):
            self._nodes.setdefault(self._calls.get(index.nodes[identifier].frame, 0), []).append(identifier)
        self._all = sorted(index.live)

    def around(self, node: Node) -> list[int]:
        call = self._calls.get(node.frame)
        return self._all if call is None else self._nodes[call]


def _chooses(index: Index, item: Node) -> bool:
    best = index.producer(item.args[0])
    scores = sizes(index.producer(best.args[0])) if best is not None and best.op == "topk" else None
    return scores is not None and len(scores) == 2


@dataclass(slots=True)
class _Mixture:
    """The sum over chosen experts, from their tokens, with the networks in the order of their numbers."""

    tokens: Node
    networks: list[ModuleNetwork]
    output: Node
    weights: Node


def _mixture(index: Index, choice: Node, routers: Routers, networks: ModuleNetworks, layers: _Layers) -> Experts | None:
    scores = index.producer(index.nodes[choice.args[0].id].args[0])
    count = (sizes(scores) or (0, 0))[1]
    around = layers.around(choice)
    dependent = _dependent(index, choice, set(around))
    weights = [node for node in dependent.values() if sizes(node) == sizes(choice) and _is_floating(node)][:_TRIED]
    for output, found in _sums(index, (each for each in around if each > choice.id), dependent, networks, count):
        for weight in weights:
            mixture = _Mixture(index.nodes[found[0].tokens], found, output, weight)
            if _is_sum(index, choice, mixture) and (routing := routers.read(Ref(weight.id), Ref(choice.id))):
                return _fact(index, mixture, routing)
    return None


def _dependent(index: Index, choice: Node, around: set[int]) -> dict[int, Node]:
    """What is computed from a choice or beside it, in order."""
    found: set[int] = set()
    pending = [choice.args[0].id]
    while pending:
        for user in index.users.get(pending.pop(), ()):
            if user in around and user not in found:
                found.add(user)
                pending.append(user)
    return {each: index.nodes[each] for each in sorted(found)}


def _is_floating(node: Node) -> bool:
    return node.dtype is not None and "int" not in node.dtype.name and node.dtype.name != "bool"


def _sums(
    index: Index, following: Iterable[int], dependent: dict[int, Node], networks: ModuleNetworks, count: int
) -> Iterator[tuple[Node, list[ModuleNetwork]]]:
    """The first tensors that the networks of all experts, and a choice, lead to."""
    behind: dict[int, frozenset[int]] = {}
    tried = 0
    for identifier in following:
        node = index.nodes[identifier]
        if networks.read(node) is not None:
            behind[identifier] = frozenset((identifier,))
            continue
        joined = frozenset[int]().union(*(behind.get(each, frozenset()) for each in index.reads(node)))
        if joined:
            behind[identifier] = joined
        if len(joined) > count or tried == _TRIED:
            return
        if len(joined) == count and identifier in dependent and node.shape is not None:
            found = [read for each in sorted(joined) if (read := networks.read(index.nodes[each])) is not None]
            alike = len({each.tokens for each in found}) == 1 and len({each.form for each in found}) == 1
            if not alike:
                return
            if sizes(node) == sizes(index.nodes.get(found[0].tokens)):
                tried += 1
                yield node, found


def _is_sum(index: Index, choice: Node, mixture: _Mixture) -> bool:
    """Whether the output is the weighted sum over the chosen experts, each in the place that its number says."""
    draw = np.random.default_rng(0)
    factors = 1 + draw.random(len(mixture.networks))
    stubs = {
        each.output.id: Node(
            each.output.id, "mul", (Ref(each.input), factor), {}, None, None, each.output.frame, each.output.where
        )
        for each, factor in zip(mixture.networks, factors, strict=True)
    }
    nodes = ChainMap(stubs, index.nodes)
    tokens, shape = sizes(mixture.tokens), sizes(choice)
    if tokens is None or shape is None or len(tokens) != 2 or tokens[0] != shape[0] or shape[1] > len(factors):
        return False
    if min(*tokens, *shape) < 1:
        return False
    for crowded in (False, True):  # once most experts have tokens, once all others have none
        chosen = np.argsort(draw.random((shape[0], len(factors))), axis=1)[:, : shape[1]]
        chosen = np.tile(np.arange(shape[1]), (shape[0], 1)) if crowded else chosen
        values, weights = draw.standard_normal(tokens), draw.random(shape)
        known: dict[int, Array] = {mixture.tokens.id: values, choice.id: chosen, mixture.weights.id: weights}
        try:
            given = evaluate(nodes, mixture.output.id, known)
        except UnevaluableError:
            return False
        wanted = values * (weights * factors[chosen]).sum(1, keepdims=True)
        if given.shape != wanted.shape or not np.allclose(given, wanted):
            return False
    return True


def _module_call(index: Index, frame: int) -> int:
    """The innermost call of a module that a frame is, or that it was called from."""
    call = index.graph.frames[frame]
    while call.kind != "module" and call.parent is not None:
        call = index.graph.frames[call.parent]
    return call.id


def _fact(index: Index, mixture: _Mixture, routing: Routing) -> Experts:
    first = mixture.networks[0]
    between = [node for node in index.ancestors(mixture.output.id) if node.id > routing.logits.id]
    inside = [node for each in mixture.networks for node in each.nodes]
    covered = [*between, *inside, *routing.nodes]
    weight = index.strip(index.producer(routing.logits.args[1]), "to", "transpose", "t")
    return Experts(
        input=mixture.tokens.id,
        logits=routing.logits.id,
        router_weight=str(weight.args[0]) if weight is not None and weight.op == "parameter" else "",
        output=mixture.output.id,
        nodes=index.exclusive(covered, mixture.output),
        experts=(routing.logits.shape or ())[1],
        top_k=routing.top_k,
        scoring=routing.scoring,
        renormalize=routing.renormalize,
        gate_up=first.up,
        down=first.down,
        activation=first.form.activation,
        frame=_module_call(index, mixture.output.frame),
        where=mixture.output.where,
        correction_bias=routing.correction_bias,
        groups=routing.groups,
        top_groups=routing.top_groups,
        group_score=routing.group_score,
        scale=routing.scale,
        epsilon=routing.epsilon,
        gated=first.form.gated,
        packing=first.form.packing,
        gate_up_bias=first.up_bias,
        down_bias=first.down_bias,
    )
