"""How the weights of query, key and value lie in linear layers.

`separate`: one linear layer each. One for all three is `qkv_concatenated` where all queries come first, then all keys,
then all values; `qkv_per_head` where each head's query, key and value lie together; `qkv_per_group` where the queries
that share a key-value head lie with it. `kv`: keys and values share one, the query has its own. Any other order
is `interleaved`. Read by following the row numbers of the weight to the heads.
"""

from __future__ import annotations

import numpy as np
from kunport_codegen.expression import unwrap

from kunport.variants.claims.places import follow
from kunport.variants.fact import Fact, depending
from kunport.variants.paths import Rows, Site, Way, part_rows
from kunport.variants.splits import deciding
from kunport.variants.variant import Example, Found, Variant

KEY = "attention.packing"


def read(site: Site) -> Found:
    """The packing; opaque where the projections of an operand are not found, or their rows cannot be followed."""
    fact, model = site.fact, site.layer.model
    ways = [site.query, site.key, site.value]
    if site.key.layers or site.value.layers:
        return
    if not all(way.projections for way in ways):
        yield KEY, Fact(None, fact.where, reason=f"{fact.where}: not every operand comes from a linear layer")
        return
    owners = [{each.weight for each in way.projections} for way in ways]
    where = ways[0].projections[0].node.where
    fused = [way for way, own in zip(ways, owners, strict=True) if sum(bool(own & other) for other in owners) > 1]
    if not fused:
        yield KEY, model.fact("separate", where)
        return
    if len(fused) == 2:
        order = "kv" if _apart(site, owners[1] & owners[2]) else None  # the query's own is not among them
    else:
        order = _order(site, ways, [fact.query, fact.key, fact.value])
    if order is None:
        reason = f"{where}: the rows of a weight that several operands share cannot be followed, or serve several"
        yield KEY, Fact(None, where, reason=reason)
    else:
        decided = set[str]().union(*(deciding(model, each) for way in fused for each in way.projections))
        yield from depending({KEY: model.fact(order, where)}, decided).items()


def _apart(site: Site, weights: set[str]) -> bool:
    """Whether keys and values use different rows of the weights that they share."""
    if not weights:
        return False
    found = []
    for way, tensor in ((site.key, site.fact.key), (site.value, site.fact.value)):
        places = follow(site.layer.model, tensor, [each.node.id for each in way.projections], way.same)
        if places is None:
            return False
        mine = [at for at, each in enumerate(way.projections) if each.weight in weights]
        used = np.bincount(places.columns[np.isin(places.sources, mine)])
        found.append(set(np.flatnonzero(used).tolist()))
    return not found[0] & found[1]


def _order(site: Site, fused: list[Way], tensors: list[int]) -> str | None:
    shared = next(iter({each.weight for each in fused[-1].projections}))
    parts: list[Rows] = []
    for way, tensor in zip(fused, tensors, strict=True):
        source = next((each for each in way.projections if each.weight == shared), None)
        part = part_rows(site, source, way, tensor) if source is not None else None
        if part is None:
            return None
        parts.append(part)
    runs = [part.runs for part in parts]
    # Of the weight, which has fewer than the attention where the source repeats them before it.
    heads, kv_heads = unwrap(site.fact.heads), len(parts[-1].numbers) // unwrap(site.fact.value_dim)
    if not parts[0].numbers[0] < parts[1].numbers[0] < parts[2].numbers[0]:
        return "interleaved"
    if all(run == 1 for run in runs):
        return "qkv_concatenated"
    if runs[-1] == kv_heads:
        return "qkv_per_head" if heads == kv_heads else "qkv_per_group"
    return "interleaved" if runs[-1] > kv_heads else None


VARIANT = Variant(
    keys={KEY: "how the weights are packed"},
    scope="attention",
    read=read,
    examples=(
        Example("llama", "separate"),
        Example("phi3", "qkv_concatenated"),
        Example("gpt_neox", "qkv_per_head"),
        Example("gpt2", "qkv_concatenated"),
        Example(
            "falcon",
            "qkv_per_group",
            config={
                "new_decoder_architecture": True,
                "num_kv_heads": 8,
                "hidden_size": 4096,
                "num_attention_heads": 64,
            },
        ),
    ),
)
