"""Gates on results, of attention or of an MLP: where they multiply, and what makes them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kunport_codegen.graph import Node, refs

from kunport.variants.feedforward import MLP
from kunport.variants.model import Layer, Model
from kunport.variants.paths import Site, projections_of

_ACTIVATIONS = ("sigmoid", "silu", "tanh", "softplus", "relu", "gelu", "softmax")
_MOVES = ("to", "reshape", "transpose", "permute", "unsqueeze", "squeeze", "getitem", "expand", "flatten", "item")


@dataclass(frozen=True, slots=True)
class Gate:
    """``product`` multiplies a result by what ``source`` makes of a projection."""

    product: Node
    source: Node


def gate_of(site: Site) -> Gate | None:
    """The first gate after an attention."""
    return _first(site.layer, site.onward.gates)


def gate_of_mlp(layer: Layer, mlp: MLP) -> Gate | None:
    """The gate on what an MLP puts out."""
    index, products = layer.model.index, list[tuple[Node, int]]()
    pending = [max(each.node.id for each in mlp.projections)]
    while pending:
        current = pending.pop()
        for user in (index.nodes.get(each) for each in index.users.get(current, ())):
            if user is not None and user.op == "mul":
                products.extend((user, each) for each in refs(user.args) if each != current)
            elif user is not None and user.op in _MOVES:
                pending.append(user.id)
    return _first(layer, products)


def _first(layer: Layer, products: Iterable[tuple[Node, int]]) -> Gate | None:
    """The first product by something that a projection makes."""
    index = layer.model.index
    for product, other in products:
        source = index.strip(index.nodes.get(other), *_MOVES)
        if source is not None and projections_of(layer, other):
            return Gate(product, source)
    return None


def activation_of(model: Model, gate: Gate) -> str | None:
    """The name of a gate's activation, None without one that has a name."""
    source = gate.source
    named = next((each.name for each in model.facts.activations if each.output == source.id), None)
    return named or (source.op if source.op in _ACTIVATIONS else None)
