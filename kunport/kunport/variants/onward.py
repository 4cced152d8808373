"""What follows an attention: from its result to the linear layer that reads the heads."""

from __future__ import annotations

from dataclasses import dataclass, field

from kunport_codegen.facts import Norm
from kunport_codegen.graph import Node

from kunport.variants.model import Layer
from kunport.variants.projections import Projection, projection


@dataclass(slots=True)
class Onward:
    """What follows an attention's result, up to the projections that read it.

    ``gates`` are products on the way, each with the other factor; ``differential`` is a difference of two parts of the
    result; ``same`` says of which tensor a product or a norm holds the elements at the same places.
    """

    projections: list[Projection] = field(default_factory=list)
    gates: list[tuple[Node, int]] = field(default_factory=list)
    norms: list[Norm] = field(default_factory=list)
    differential: Node | None = None
    same: dict[int, int] = field(default_factory=dict)


def walk_on(layer: Layer, start: int) -> Onward:
    """From an attention's result to the next projection."""
    model, onward = layer.model, Onward()
    norm_of_input = {norm.input: norm for norm in layer.norms}
    pending, seen = [start], {start}
    subtracted: list[Node] = []
    while pending:
        current = pending.pop()
        if (norm := norm_of_input.get(current)) is not None:
            onward.norms.append(norm)
            onward.same[norm.output] = norm.input
            if norm.output not in seen:
                seen.update(norm.nodes)
                pending.append(norm.output)
        for user in model.index.users.get(current, ()):
            node = model.index.nodes.get(user)
            if node is None or user in seen or model.layer_of(node) is not layer:
                continue
            seen.add(user)
            if (found := projection(model, node)) is not None:
                onward.projections.append(found)
                continue
            if node.op == "sub":
                subtracted.append(node)
            if node.op == "mul":
                onward.same[node.id] = current
                others = [each for each in model.reads(node) if each != current]
                onward.gates.extend((node, each) for each in others if each not in seen)
            if node.op != "add" or model.parameter(node.args[1]) is not None:
                pending.append(user)
    both = (node for node in subtracted if len(set(model.reads(node)) & seen) == 2)
    onward.differential = next(both, None)
    return onward
