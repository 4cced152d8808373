"""Output gates: the combined heads times an activation of a projection of the layer's input.

The value names the activation. Gates by heads and by elements are the same here.
"""

from __future__ import annotations

from kunport_codegen.graph import Node

from kunport.variants.model import Model
from kunport.variants.paths import Site, walk_back
from kunport.variants.variant import Example, Found, Variant

KEY = "attention.gate"
_MOVES = ("to", "reshape", "transpose", "permute", "unsqueeze", "squeeze", "getitem", "expand", "flatten", "item")
_ACTIVATIONS = ("sigmoid", "silu", "tanh", "softplus", "relu", "gelu", "softmax")


def read(site: Site) -> Found:
    """The activation of the gate, null without one."""
    model = site.layer.model
    for node, other in site.onward.gates:
        source = model.index.strip(model.index.nodes.get(other), *_MOVES)
        if source is not None and walk_back(site.layer, other).projections:
            name = _activation(model, source)
            fact = model.fact(name, node.where, "gate") if name else model.opaque(node, "a gate without an activation")
            yield KEY, fact
            return
    yield KEY, model.fact(None, site.fact.where, r"attn_?(output_?)?gate|use_?gate|gated_attention")


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
