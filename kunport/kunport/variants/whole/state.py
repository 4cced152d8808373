"""What has to be kept from token to token while a model generates.

`kv`: keys and values of attention. `conv`: the last inputs of a short convolution. `ssm` (Mamba), `delta` (gated delta
rule), `linear`, `rg_lru`, `rwkv`, `mlstm`: the state of the mixer of that name.
"""

from __future__ import annotations

from kunport.variants.attention import kind
from kunport.variants.attention.kind import hidden_mixing
from kunport.variants.fact import Fact, depending
from kunport.variants.model import Layer, Model
from kunport.variants.variant import Example, Found, Variant

KEY = "state"
_STATES = {
    "mamba": ("conv", "ssm"),
    "mamba2": ("conv", "ssm"),
    "gated_delta": ("conv", "delta"),
    "kda": ("conv", "delta"),
    "linear": ("linear",),
    "rg_lru": ("conv", "rg_lru"),
    "rwkv": ("rwkv",),
    "mlstm": ("mlstm",),
    "short_convolution": ("conv",),
    "differential": ("kv",),
}


def read(model: Model) -> Found:
    """The states of all layers together; opaque where some layer mixes tokens in a way without a name."""
    where = model.layers[0].frame.where if model.layers else model.graph.modules[""].where
    if not model.layers and model.graph.unknowns():
        yield KEY, model.opaque(model.graph.unknowns()[0])
        return
    states = set[str]()
    for layer in model.layers:
        if hidden := hidden_mixing(layer):
            yield KEY, model.opaque(hidden[0])
            return
        states |= _of(layer)
        for mixer in layer.facts.get("Mixer", []):
            if mixer.kind not in _STATES:
                yield KEY, Fact(None, mixer.where, reason=f"{mixer.where}: the state of {mixer.kind} has no name here")
                return
            where = min(where, mixer.where, key=str)
    alike = all(_of(layer) == states for layer in model.layers)  # however their bodies are chosen
    kinds = [] if alike else [dict(kind.read(layer))[kind.KEY] for layer in model.layers]
    fields = [field for each in kinds for field in each.fields]
    yield from depending({KEY: model.fact(sorted(states), where)}, fields).items()


def _of(layer: Layer) -> set[str]:
    kept = {state for mixer in layer.facts.get("Mixer", []) for state in _STATES.get(mixer.kind, ())}
    if layer.attentions:
        kept.add("kv")
    operators = {fact.kind for fact in layer.facts.get("StateOperator", [])}
    if "short_convolution" in operators or any(node.op == "conv1d" for node in layer.unread_mixing):
        kept.add("conv")
    return kept


VARIANT = Variant(
    keys={KEY: "sorted names of states"},
    scope="model",
    read=read,
    examples=(Example("llama", ["kv"]),),
)
