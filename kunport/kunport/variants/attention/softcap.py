"""Soft caps on scores: `c * tanh(score / c)`, which keeps every score between -c and c (Gemma 2, arXiv:2408.00118)."""

from __future__ import annotations

from kunport.variants.paths import Site
from kunport.variants.variant import Example, Found, Variant

KEY = "attention.softcap"


def read(site: Site) -> Found:
    """The cap, null without one."""
    yield KEY, site.layer.model.fact(site.fact.softcap, site.fact.where, r"^(?!.*final).*(soft_?cap|logit_?cap)")


VARIANT = Variant(
    keys={KEY: "null, or the cap"},
    scope="attention",
    read=read,
    examples=(
        Example("gemma2", 50.0, fields=("attn_logit_softcapping",)),
        Example("gemma2", None, fields=("attn_logit_softcapping",), config={"attn_logit_softcapping": None}),
        Example("llama", None, fields=()),
    ),
)
