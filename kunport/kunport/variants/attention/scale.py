"""What scores are multiplied by: usually 1 / sqrt(head_dim), elsewhere a field, or nothing (1.0)."""

from __future__ import annotations

import math

from kunport_codegen.expression import unwrap

from kunport.variants.fact import Fact
from kunport.variants.paths import Site
from kunport.variants.variant import Example, Found, Variant

KEY = "attention.scale"


def read(site: Site) -> Found:
    """The product of all factors on queries, keys and scores; opaque where cosines and sines have one of their own.

    The factor that belongs to a way of scaling frequencies (YaRN's) is no part of it.
    """
    for rope in (*site.query.ropes, *site.key.ropes):
        if rope.table.scaling != 1.0 and rope.table.rope_type in ("", "default"):
            reason = f"{rope.where}: cosines and sines are multiplied by {rope.table.scaling:g}"
            yield KEY, Fact(None, site.fact.where, reason=reason)
            return
    factors = [site.fact.scale, *site.query.factors, *site.key.factors]
    value = math.prod(float(unwrap(factor)) for factor in factors)
    yield KEY, site.layer.model.fact(value, site.fact.where, "", *factors)


VARIANT = Variant(
    keys={KEY: "the factor"},
    scope="attention",
    read=read,
    examples=(
        Example("granite", 1.0, fields=("attention_multiplier",)),
        Example("gemma2", 0.0625, fields=("query_pre_attn_scalar",)),
        Example("mistral", 128**-0.5),
    ),
)
