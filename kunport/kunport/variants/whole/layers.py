"""How many layers the longest stack of the model has."""

from __future__ import annotations

from kunport.variants.fact import Fact
from kunport.variants.model import Model
from kunport.variants.variant import Example, Found, Variant

KEY = "layers"
# The graph does not keep what a list of layers was counted by: the fields that the field counts layers with.
_COUNTS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "depth")


def read(model: Model) -> Found:
    """The number of layers; opaque where no numbered modules run one after another."""
    if not model.layers:
        where = model.graph.modules[""].where
        yield KEY, Fact(None, where, reason=f"{where}: no list of layers was found")
        return
    first = model.layers[0]
    count = sum(layer.stack == first.stack for layer in model.layers)
    fields = [name for name in _COUNTS if model.graph.config.get(name) == count]
    yield KEY, Fact(count, first.frame.where, tuple(fields[:1]))


VARIANT = Variant(
    keys={KEY: "the number of layers"},
    scope="model",
    read=read,
    examples=(Example("llama", 3, config={"num_hidden_layers": 3}),),
)
