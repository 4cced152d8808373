"""ALiBi: scores lose a share of the distance between query and key, by a slope of each head (arXiv:2108.12409)."""

from __future__ import annotations

from kunport.variants.paths import Site
from kunport.variants.variant import Example, Found, Variant

KEY = "attention.alibi"


def read(site: Site) -> Found:
    """Whether recognition found slopes on the scores; anything else added to scores is no recognised attention."""
    yield KEY, site.layer.model.fact(bool(getattr(site.fact, "alibi", False)), site.fact.where, "alibi")


VARIANT = Variant(
    keys={KEY: "true or false"},
    scope="attention",
    read=read,
    examples=(Example("llama", False, fields=()),),
)
