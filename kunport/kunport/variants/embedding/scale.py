"""What token embeddings are multiplied by before the first layer, such as the root of the hidden size (Gemma)."""

from __future__ import annotations

from kunport.variants.model import Model
from kunport.variants.tokens import embedding_scale
from kunport.variants.variant import Example, Found, Variant

KEY = "embedding.scale"


def read(model: Model) -> Found:
    """The factor."""
    yield KEY, embedding_scale(model)


VARIANT = Variant(
    keys={KEY: "the factor"},
    scope="model",
    read=read,
    examples=(
        Example("gemma2", 48.0, fields=("hidden_size",)),
        Example("granite", 12.0, fields=("embedding_multiplier",), config={"embedding_multiplier": 12.0}),
        Example("llama", 1.0, fields=()),
    ),
)
