"""Output gates: the combined heads times an activation of a projection of the layer's input.

The value names the activation. Gates by heads and by elements are the same here.
"""

from __future__ import annotations

from kunport_codegen.graph import Node

from kunport.variants.gates import gate_of
from kunport.variants.model import Model
from kunport.variants.paths import Site
from kunport.variants.variant import Example, Found, Variant

KEY = "attention.gate"
_ACTIVATIONS = ("sigmoid", "silu", "tanh", "softplus", "relu", "gelu", "softmax")


def read(site: Site) -> Found:
    """The activation of the gate, null without one."""
    model = site.layer.model
    if (gate := gate_of(site)) is None:
        yield KEY, model.fact(None, site.fact.where, r"attn_?(output_?)?gate|use_?gate|gated_attention")
    elif name := _activation(model, gate.source):
        yield KEY, model.fact(name, gate.product.where, "gate")
    else:
        yield KEY, model.opaque(gate.product, "a gate without an activation")


def _activation(model: Model, node: Node) -> str | None:
    """The name of the activation that makes a tensor."""
    named = next((each.name for each in model.facts.activations if each.output == node.id), None)
    return named or (node.op if node.op in _ACTIVATIONS else None)


VARIANT = Variant(
    keys={KEY: "null, or the activation's name"},
    scope="attention",
    read=read,
    examples=(Example("afmoe", "sigmoid"), Example("llama", None)),
)
