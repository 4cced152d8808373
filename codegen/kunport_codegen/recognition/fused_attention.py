"""Attention in one operator: torch's ``scaled_dot_product_attention``."""

from __future__ import annotations

from typing import Any

from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Attention, Number
from kunport_codegen.graph import Node

from .attention import combined_heads, grouped, operand
from .index import Index, combine, number
from .mask_shapes import Mask
from .masks import operand_mask

_OPTIONS = ("attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")


def find_fused_attentions(index: Index) -> list[Attention]:
    """The attentions that are one operator, in order."""
    nodes = index.in_order("scaled_dot_product_attention")
    return [found for node in nodes if (found := _attention(index, node)) is not None]


def _attention(index: Index, node: Node) -> Attention | None:
    options: dict[str, Any] = dict(zip(_OPTIONS, node.args[3:], strict=False)) | node.kwargs
    mask = _mask(index, options)
    query, key, value = (operand(index, index.producer(arg), scales=False, repeats=True) for arg in node.args[:3])
    if mask is None or query is None or key is None or value is None or query.repeated:
        return None
    if unwrap(options.get("enable_gqa")):
        key.repeated = value.repeated = True
    heads = grouped(query, key, value, node)
    if heads is None:
        return None
    scale: Number | None = number(options.get("scale"))
    output, heads_first, tail = combined_heads(index, node)
    covered = [node, *tail, *query.covered, *key.covered, *value.covered]
    nodes = index.exclusive((*covered, *mask.covered), output)
    if not {each.id for each in covered} <= nodes or unwrap(heads[2]) == 0:
        return None
    return Attention(
        query=query.tensor.id,
        key=key.tensor.id,
        value=value.tensor.id,
        output=output.id,
        heads_first=heads_first,
        nodes=nodes,
        heads=heads[0],
        kv_heads=heads[1],
        head_dim=heads[2],
        value_dim=heads[3],
        scale=combine("pow", heads[2], -0.5) if scale is None else scale,
        softcap=None,
        mask=mask.kind,
        window=mask.window,
        sinks=None,
        upcast=True,  # inside of the operator
        frame=node.frame,
        where=node.where,
    )


def _mask(index: Index, options: dict[str, Any]) -> Mask | None:
    """What hides keys: the operator's own causal mask, or its operand; None where that is not understood."""
    added = options.get("attn_mask")
    if added is not None:
        return None if unwrap(options.get("is_causal")) else operand_mask(index, index.producer(added))
    return Mask("causal" if unwrap(options.get("is_causal")) else "bidirectional")
