"""ALiBi: scores lose a share of the distance between query and key, by a slope of each head (arXiv:2108.12409)."""

from __future__ import annotations

from kunport.variants.paths import Site
from kunport.variants.variant import Example, Found, Variant

KEY = "attention.alibi"


def read(site: Site) -> Found:
    """Whether recognition found slopes on the scores; opaque where positions are added in another way."""
    if (shifting := site.shifting) is not None:
        yield KEY, site.layer.model.opaque(shifting, "positions are added to the scores in a way without a name")
        return
    yield KEY, site.layer.model.fact(bool(getattr(site.fact, "alibi", False)), site.fact.where, "alibi")


VARIANT = Variant(
    keys={KEY: "true or false"},
    scope="attention",
    read=read,
    examples=(Example("llama", False, fields=()),),
)
