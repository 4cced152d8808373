"""What a product with a parameter explains beside itself: its bias; and what a gate does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kunport.variants.gates import Gate
from kunport.variants.model import Layer, Model
from kunport.variants.paths import projections_of
from kunport.variants.projections import Projection, adds_bias


def of_products(model: Model, projections: Iterable[Projection]) -> Iterator[int]:
    """Projections, each with the bias that is added to its result."""
    for each in projections:
        yield each.node.id
        user = model.index.user(each.node) if each.bias and adds_bias(model, each.node) else None
        if user is not None:
            yield user.id


def of_gate(layer: Layer, gate: Gate) -> Iterator[int]:
    """A gate's product, its activation, and the projections that it comes from."""
    yield from (gate.product.id, gate.source.id)
    yield from of_products(layer.model, projections_of(layer, gate.source.id))


def of_parameters(layer: Layer) -> set[int]:
    """What a layer computes from its parameters alone."""
    model, found = layer.model, set[int]()
    for node in layer.nodes:
        reads = model.reads(node)
        if reads and all(each in found or _is_parameter(model, each) or model.index.constant(each) for each in reads):
            found.add(node.id)
    return found


def _is_parameter(model: Model, identifier: int) -> bool:
    node = model.index.nodes.get(identifier)
    return node is not None and node.op == "parameter"
