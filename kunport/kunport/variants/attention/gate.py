"""Output gates: the combined heads times an activation of a projection of the layer's input.

The value names the activation. Gates by heads and by elements are the same here.
"""

from __future__ import annotations

from kunport.variants.gates import activation_of, gate_of
from kunport.variants.paths import Site
from kunport.variants.variant import Example, Found, Variant

KEY = "attention.gate"


def read(site: Site) -> Found:
    """The activation of the gate, null without one."""
    model = site.layer.model
    if (gate := gate_of(site)) is None:
        yield KEY, model.fact(None, site.fact.where, r"attn_?(output_?)?gate|use_?gate|gated_attention")
    elif name := activation_of(model, gate):
        yield KEY, model.fact(name, gate.product.where, "gate")
    else:
        yield KEY, model.opaque(gate.product, "a gate without an activation")


VARIANT = Variant(
    keys={KEY: "null, or the activation's name"},
    scope="attention",
    read=read,
    examples=(Example("afmoe", "sigmoid"), Example("llama", None)),
)
