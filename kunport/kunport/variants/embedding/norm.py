"""Whether the embedding is normalised before the first layer."""

from __future__ import annotations

from kunport.variants.model import Model
from kunport.variants.tokens import embedded
from kunport.variants.variant import Example, Found, Variant

KEY = "embedding.norm"


def read(model: Model) -> Found:
    """True or false; opaque where something on the way to the first layer is not understood."""
    found = embedded(model)
    if found.unknown is not None:
        yield KEY, model.opaque(found.unknown)
    elif found.norms:
        yield KEY, model.fact(True, found.norms[0].where)
    else:
        yield KEY, model.fact(False, found.tokens.where if found.tokens else model.graph.modules[""].where)


VARIANT = Variant(
    keys={KEY: "true or false"},
    scope="model",
    read=read,
    examples=(Example("bloom", True), Example("llama", False)),
)
