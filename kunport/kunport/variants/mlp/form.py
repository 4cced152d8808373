"""The MLP: gated or plain, its activation, how its weights are packed, biases and width.

`gated`: one projection, activated, multiplies another (arXiv:2002.05202). `plain`: one projection and its activation.
`none`: the layer has no MLP. `mlp.packing` says whether both halves of a gated one come from one linear layer
(`fused`) or not (`separate`), `mlp.size` is the width between the projections. A layer with experts has keys
`experts` instead.
"""

from __future__ import annotations

from kunport_codegen.graph import Location

from kunport.variants.claims import applies_parameter, unexplained
from kunport.variants.fact import depending
from kunport.variants.feedforward import MLP, hidden_mlp, mlps
from kunport.variants.model import Layer
from kunport.variants.projections import bias_sources
from kunport.variants.variant import ABSENT, Example, Found, Variant

KEYS = {
    "mlp.kind": "gated, plain or none",
    "mlp.activation": "the activation's name",
    "mlp.packing": "separate or fused",
    "mlp.bias": "true or false",
    "mlp.size": "elements between the projections",
}

_BIAS_SWITCHES = r"^(?!.*(att|qkv|head)).*bias"


def read(layer: Layer) -> Found:
    """The keys of the layer's MLP; opaque where it has one whose activation is not recognised."""
    if layer.router_parts or layer.facts.get("Experts"):
        return
    model, found = layer.model, mlps(layer)
    if found:
        frame, holder = found[0].fact.frame, _holder(layer, found[0])
        for key, fact in _keys(layer, found[0]):
            yield from depending({key: fact}, model.chosen(frame if key == "mlp.activation" else holder)).items()
    elif (hidden := hidden_mlp(layer)) is not None:
        yield from ((key, hidden) for key in KEYS)
    elif rest := [node for node in unexplained(model, layer) if applies_parameter(model, node)]:
        yield from ((key, model.opaque(rest[0])) for key in KEYS)
    else:
        yield "mlp.kind", model.fact("none", layer.frame.where)


def _keys(layer: Layer, found: MLP) -> Found:
    model, where = layer.model, _where(layer, found)
    kind = model.fact("gated" if found.gated else "plain", where)
    yield "mlp.kind", model.opaque(found.changed) if found.changed is not None else kind
    yield "mlp.activation", model.fact(found.fact.name, where, r"act(ivation)?(_fn|_func(tion)?)?$|hidden_act")
    if found.gated:
        yield "mlp.packing", model.fact("fused" if found.fused else "separate", where)
    switches, sources = bias_sources(model, found.projections, _BIAS_SWITCHES)
    yield "mlp.bias", model.fact(any(each.bias for each in found.projections), where, switches, *sources)
    yield "mlp.size", model.fact(found.size, where)


def _where(layer: Layer, found: MLP) -> Location:
    """The line of the model: where it calls the activation, if that is a module of the library."""
    frame = layer.model.graph.frames[found.fact.frame]
    return frame.where if _holder(layer, found) != frame.id else found.fact.where


def _holder(layer: Layer, found: MLP) -> int:
    """The call that the MLP is in: the activation's, or the one around it where the activation is a module."""
    frame = layer.model.graph.frames[found.fact.frame]
    leaf = frame.kind == "module" and not layer.model.graph.modules[frame.path].children
    return frame.parent if leaf and frame.parent is not None else frame.id


VARIANT = Variant(
    keys=KEYS,
    scope="layer",
    read=read,
    examples=(
        Example("llama", "gated", "mlp.kind"),
        Example("gpt2", "plain", "mlp.kind"),
        Example("gpt2", "gelu_tanh", "mlp.activation", fields=("activation_function",)),
        Example("gemma2", "gelu_tanh", "mlp.activation"),
        Example("llama", "silu", "mlp.activation", fields=("hidden_act",)),
        Example("phi3", "fused", "mlp.packing"),
        Example("llama", "separate", "mlp.packing"),
        Example("gpt2", ABSENT, "mlp.packing"),
        Example("llama", False, "mlp.bias", fields=("mlp_bias",)),
        Example("gpt2", True, "mlp.bias"),
        Example("mistral", 14336, "mlp.size", fields=("intermediate_size",)),
        Example("mixtral", ABSENT, "mlp.kind"),
    ),
)
