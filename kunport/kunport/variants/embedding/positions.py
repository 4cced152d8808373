"""Whether a vector of each position is added to the token embedding, and whether it is learned or computed."""

from __future__ import annotations

from kunport.variants.model import Model
from kunport.variants.tokens import embedded_positions
from kunport.variants.variant import Example, Found, Variant

KEY = "embedding.positions"


def read(model: Model) -> Found:
    """``learned``, ``sinusoidal`` or null."""
    yield KEY, embedded_positions(model)


VARIANT = Variant(
    keys={KEY: "null, learned or sinusoidal"},
    scope="model",
    read=read,
    examples=(Example("gpt2", "learned"), Example("llama", None)),
)
