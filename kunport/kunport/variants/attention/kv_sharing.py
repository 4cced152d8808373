"""Layers that reuse the keys and values of an earlier layer instead of making their own."""

from __future__ import annotations

from kunport.variants.paths import Site
from kunport.variants.variant import Example, Found, Variant

KEY = "attention.kv_shared_from"


def read(site: Site) -> Found:
    """The index of the layer whose keys are used, null for its own."""
    if (bare := site.bare) is not None:
        yield KEY, bare
        return
    layers = sorted(site.key.layers | site.value.layers)
    value = layers[-1] if layers else None
    yield KEY, site.layer.model.fact(value, site.fact.where, "kv_shared")


VARIANT = Variant(
    keys={KEY: "null, or the index of a layer"},
    scope="attention",
    read=read,
    examples=(Example("llama", None),),
)
