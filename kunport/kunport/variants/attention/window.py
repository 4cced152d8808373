"""Sliding windows: how many of the last keys a query sees, its own included."""

from __future__ import annotations

from kunport.variants.paths import Site
from kunport.variants.variant import Example, Found, Variant

KEY = "attention.window"
SWITCHES = r"sliding|window_?size|^local"


def read(site: Site) -> Found:
    """The window of the attention's mask, null where it sees everything before it or a chunk."""
    fact = site.fact
    if (hiding := site.hiding) is not None:
        yield KEY, site.layer.model.opaque(hiding, "what is added to the scores may hide keys")
        return
    window = fact.window if fact.mask != "chunked" else None
    yield KEY, site.layer.model.fact(window, fact.where, SWITCHES)


VARIANT = Variant(
    keys={KEY: "null, or a number of keys"},
    scope="attention",
    read=read,
    examples=(
        Example("mistral", 4096, fields=("sliding_window",)),
        Example("llama", None, fields=()),
        Example("gemma2", 4096, layer=0, fields=("layer_types", "sliding_window")),
        Example("gemma2", None, layer=1, fields=("layer_types",)),
        Example("qwen2", None, fields=("layer_types", "use_sliding_window")),
    ),
)
