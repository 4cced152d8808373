"""Sparse attention by an indexer: a small attention of its own chooses the keys that each query sees.

Introduced by DeepSeek V3.2 (arXiv:2512.02556). Seen as a choice of the largest values over positions.
"""

from __future__ import annotations

from kunport.variants.model import Layer
from kunport.variants.paths import Site
from kunport.variants.variant import Example, Found, Variant

KEY = "attention.indexer"


def read(site: Site) -> Found:
    """Whether the layer chooses keys."""
    choices = [node for node in site.layer.nodes if node.op == "topk" and chooses_tokens(site.layer, node.id)]
    where = choices[0].where if choices else site.fact.where
    yield KEY, site.layer.model.fact(bool(choices), where, "index_?(topk|n_heads|head_dim)" if choices else "")


def chooses_tokens(layer: Layer, choice: int) -> bool:
    """Whether a choice of the largest values runs over positions."""
    return layer.over_tokens(layer.model.index.nodes[choice])


VARIANT = Variant(
    keys={KEY: "true or false"},
    scope="attention",
    read=read,
    examples=(Example("llama", False),),
)
