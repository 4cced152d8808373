"""Output gates: the combined heads times an activation of a projection of the layer's input.

The value names the activation. Gates by heads and by elements are the same here.
"""

from __future__ import annotations

from kunport.variants.gates import Gate, activation_of, gate_of
from kunport.variants.paths import Site, walk_back
from kunport.variants.variant import Example, Found, Variant

KEY = "attention.gate"


def read(site: Site) -> Found:
    """The activation of the gate, null without one."""
    model = site.layer.model
    if (gate := gate_of(site)) is None:
        yield KEY, model.fact(None, site.fact.where, r"attn_?(output_?)?gate|use_?gate|gated_attention")
    elif beside := _of_something_else(site, gate):
        yield KEY, model.opaque(gate.product, beside)
    elif name := activation_of(model, gate):
        yield KEY, model.fact(name, gate.product.where, "gate")
    else:
        yield KEY, model.opaque(gate.product, "a gate without an activation")


def _of_something_else(site: Site, gate: Gate) -> str:
    """What a gate is made of where it is no projection of the layer's input; "" where it is."""
    way = walk_back(site.layer, gate.source.id)
    if way.norms or way.ropes:
        return "a gate that is normalised or rotated before its activation"
    made = {each.node.id for each in way.projections}
    if any(site.fact.output in {each.id for each in site.layer.model.index.ancestors(read)} for read in made):
        return "a gate that is made of what the attention gives"
    return ""


VARIANT = Variant(
    keys={KEY: "null, or the activation's name"},
    scope="attention",
    read=read,
    examples=(Example("afmoe", "sigmoid"), Example("llama", None)),
)
