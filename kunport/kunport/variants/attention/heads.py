"""How many heads, and how wide.

`heads` is the number of query heads; `kv_heads` that of keys and values, fewer where several queries share one (grouped
or multi-query attention). `head_dim` is the length of a query and a key, `value_dim` that of a value.
"""

from __future__ import annotations

from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Number

from kunport.variants.fact import Fact, depending
from kunport.variants.paths import Site, part_rows
from kunport.variants.splits import deciding
from kunport.variants.variant import Example, Found, Variant


def read(site: Site) -> Found:
    """The four sizes, with the fields that they are computed from."""
    fact, model = site.fact, site.layer.model
    yield "attention.heads", model.fact(fact.heads, fact.where)
    kv_heads = _kv_heads(site)
    if kv_heads is None:
        reason = f"{fact.where}: the rows of the weight that keys share with others cannot be followed"
        yield "attention.kv_heads", Fact(None, fact.where, reason=reason)
    else:
        made = [] if kv_heads is fact.kv_heads else [(site.key.projections[0].node.shape or ())[-1]]
        known = {"attention.kv_heads": model.fact(kv_heads, fact.where, "", *made)}
        decided = set[str]().union(*(deciding(model, each) for each in site.key.projections))
        yield from depending(known, decided).items()
    yield "attention.head_dim", model.fact(fact.head_dim, fact.where)
    yield "attention.value_dim", model.fact(fact.value_dim, fact.where)


def _kv_heads(site: Site) -> Number | None:
    """The heads of keys that the weights make, since some models repeat them before attention; None if not known."""
    fact = site.fact
    heads, dim = int(unwrap(fact.kv_heads)), int(unwrap(fact.head_dim))
    if site.key.latent or len(site.key.projections) != 1:
        return fact.kv_heads
    source = site.key.projections[0]
    fused = source.weight in {each.weight for each in (*site.query.projections, *site.value.projections)}
    if source.node.shape is None:
        return fact.kv_heads
    made = int(unwrap(source.node.shape[-1]))
    if fused:
        found = part_rows(site, source, site.key, fact.key)
        if found is None:
            return None
        made = len(found.numbers)
    return made // dim if 0 < made < heads * dim and made % dim == 0 else fact.kv_heads


VARIANT = Variant(
    keys={
        "attention.heads": "query heads",
        "attention.kv_heads": "key-value heads",
        "attention.head_dim": "elements of a query or key",
        "attention.value_dim": "elements of a value",
    },
    scope="attention",
    read=read,
    examples=(
        Example("mistral", 32, "attention.heads", fields=("num_attention_heads",)),
        Example("mistral", 8, "attention.kv_heads", fields=("num_key_value_heads",)),
        Example("gemma2", 256, "attention.head_dim", fields=("head_dim",)),
        Example("deepseek_v3", 192, "attention.head_dim"),
        Example("deepseek_v3", 128, "attention.value_dim", fields=("v_head_dim",)),
    ),
)
