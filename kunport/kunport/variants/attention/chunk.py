"""Chunked attention: a query sees only keys of its own chunk, and of those the ones before it."""

from __future__ import annotations

from kunport.variants.paths import Site
from kunport.variants.variant import Example, Found, Variant

KEY = "attention.chunk"


def read(site: Site) -> Found:
    """The length of a chunk, null without chunks."""
    fact = site.fact
    if (hiding := site.hiding) is not None:
        yield KEY, site.layer.model.opaque(hiding, "what is added to the scores may hide keys")
        return
    yield KEY, site.layer.model.fact(fact.window if fact.mask == "chunked" else None, fact.where, "chunk")


VARIANT = Variant(
    keys={KEY: "null, or the tokens of a chunk"},
    scope="attention",
    read=read,
    examples=(Example("llama", None),),
)
