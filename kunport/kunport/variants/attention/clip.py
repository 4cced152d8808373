"""Queries, keys and values kept within -c and c (`clip_qkv` of DBRX and OLMo)."""

from __future__ import annotations

from kunport_codegen.graph import Node

from kunport.variants.paths import Site
from kunport.variants.variant import Example, Found, Variant

KEY = "attention.clip"


def read(site: Site) -> Found:
    """The bound c, null without one."""
    model = site.layer.model
    clips = [node for way in (site.query, site.key, site.value) for node in way.clips]
    if not clips:
        yield KEY, model.fact(None, site.fact.where, "clip")
        return
    yield KEY, model.fact(_upper(clips[0]), clips[0].where, "clip")


def _upper(clamp: Node) -> object:
    return clamp.kwargs.get("max", clamp.args[2] if len(clamp.args) > 2 else None)


VARIANT = Variant(
    keys={KEY: "null, or the bound"},
    scope="attention",
    read=read,
    examples=(
        Example("olmo", None, fields=("clip_qkv",)),
        Example("olmo", 8.0, fields=("clip_qkv",), config={"clip_qkv": 8.0}),
        Example("llama", None, fields=()),
    ),
)
