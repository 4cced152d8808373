"""Which of the attention's linear layers add a bias.

`q`, `k` and `v` stand for the projections to query, key and value, a fused one for all that it makes; `o` for the one
that reads the combined heads, `gate` for the one that makes the output gate.
"""

from __future__ import annotations

from kunport.variants.gates import gate_of
from kunport.variants.paths import Site, projections_of
from kunport.variants.projections import bias_sources
from kunport.variants.variant import Example, Found, Variant

KEY = "attention.bias"
_SWITCHES = r"^(?!.*(mlp|ffn|ff_|fc_|head)).*bias"


def read(site: Site) -> Found:
    """Letters of the biased projections, in the order of the alphabet."""
    if (bare := site.bare) is not None:
        yield KEY, bare
        return
    model = site.layer.model
    ways = {"q": site.query, "k": site.key, "v": site.value}
    found = {name for name, way in ways.items() if way.biased}
    if any(each.bias for each in site.onward.projections):
        found.add("o")
    gate = gate_of(site)
    gating = projections_of(site.layer, gate.source.id) if gate is not None else []
    if any(each.bias for each in gating):
        found.add("gate")
    projections = [each for way in ways.values() for each in (*way.projections, *way.deeper)]
    projections += [*site.onward.projections, *gating]
    if not projections:
        return
    where = next((each.node.where for each in projections if each.bias), projections[0].node.where)
    switches, sources = bias_sources(model, projections, _SWITCHES)
    yield KEY, model.fact(sorted(found), where, switches, *sources)


VARIANT = Variant(
    keys={KEY: "sorted names of q, k, v, o and gate"},
    scope="attention",
    read=read,
    examples=(
        Example("llama", [], fields=("attention_bias",)),
        Example("llama", ["k", "o", "q", "v"], config={"attention_bias": True}),
        Example("qwen2", ["k", "q", "v"]),
        Example("gpt2", ["k", "o", "q", "v"]),
    ),
)
