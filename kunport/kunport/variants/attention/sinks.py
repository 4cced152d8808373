"""Attention sinks: a learned score for each head that takes part in the softmax and has no value.

The weights of a query then sum to less than 1. Introduced as such by gpt-oss (arXiv:2508.10925).
"""

from __future__ import annotations

from kunport.variants.paths import Site
from kunport.variants.variant import Example, Found, Variant

KEY = "attention.sinks"


def read(site: Site) -> Found:
    """Whether there are sinks."""
    yield KEY, site.layer.model.fact(bool(site.fact.sinks), site.fact.where, "sink")


VARIANT = Variant(
    keys={KEY: "true or false"},
    scope="attention",
    read=read,
    examples=(Example("gpt_oss", True), Example("llama", False)),
)
