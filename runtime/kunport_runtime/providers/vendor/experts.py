"""Experts: routing by one of three operators, and a chain of five for their products.

The vendor has a single operator for few tokens as well (`fused_moe`, less than 400 pairs). It is not used: what its
arguments hold is not public, its own plugin has stopped calling it, and with one way for all sizes the contract's
cases try the way that serves.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kunport_runtime.providers.vendor.operands import result
from kunport_runtime.providers.vendor.wheel import installed_wheel

PARTS = 12  # of the histogram: one for each cluster of the device


def expert_routing(
    weights: Tensor,
    ids: Tensor,
    logits: Tensor,
    correction_bias: Tensor | None,
    scoring: str,
    renormalize: bool,
    groups: int,
    top_groups: int,
    group_score: str,
    scale: float,
) -> None:
    """Softmax with and without renormalising are two operators; sigmoid is one that always does, groups included."""
    wheel = installed_wheel()
    wide = logits.float().contiguous()
    with result(weights) as scores, result(ids) as chosen:
        if scoring == "sigmoid":
            wheel.operator("moe_sigmoid_group_topk_norm")(
                x=wide,
                norm_score=scores,
                topk_index=chosen,
                block_statistic=_histogram(ids, logits.shape[1]),
                bias=correction_bias,
                n_group=groups,
                topk_group=top_groups,
                scale=scale,
            )
            return
        wheel.operator("moe_softmax_topk_norm" if renormalize else "moe_softmax_topk")(wide, scores, chosen, None)
        if scale != 1.0:
            scores.mul_(scale)


def fused_experts(
    out: Tensor,
    x: Tensor,
    gate_up_weight: Tensor,
    down_weight: Tensor,
    weights: Tensor,
    ids: Tensor,
    gate_up_bias: Tensor | None,
    down_bias: Tensor | None,
    activation: str,
    packing: str,
    alpha: float,
    limit: float,
    up_offset: float,
) -> None:
    """Sort rows by expert, product, activation, product, and back."""
    wheel = installed_wheel()
    tokens, top_k = ids.shape
    experts, hidden, size = down_weight.shape
    # Sorting takes no -1: experts of another rank become one of ours, with the weight 0.
    elsewhere = ids < 0
    ids, weights = ids.masked_fill(elsewhere, 0), weights.masked_fill(elsewhere, 0.0)
    x = x.contiguous()

    statistic = _histogram(ids, experts)
    wheel.operator("gen_block_statistic")(ids, statistic)
    expand = x.new_empty(tokens * top_k, hidden)
    index = ids.new_zeros(tokens * top_k)
    counts, starts = ids.new_zeros(experts), ids.new_zeros(experts + 1)
    wheel.operator("moe_pre_sorted")(x, ids, statistic, expand, index, counts, starts)

    def product(rows: Tensor, matrices: Tensor) -> Tensor:
        products = x.new_empty(tokens, top_k, matrices.shape[1])
        wheel.operator("moe_fc")(
            x=rows,
            weight=matrices.contiguous(),
            sorted_tokens_num_lod=starts,
            sorted_tokens_idx=index,
            moe_topk=top_k,
            y=products,
            topk_ids=ids,
            act=None,  # its own activation is wrong for large batches
        )
        return products

    activated = x.new_empty(tokens * top_k, size)
    wheel.operator("swiglu")(x=product(expand, gate_up_weight).view(tokens * top_k, 2 * size), y=activated)
    with result(out) as total:
        wheel.operator("moe_post")(
            product(activated, down_weight), index.view(tokens, top_k), weights, torch.ones_like(weights), total
        )


def _histogram(ids: Tensor, experts: int) -> Tensor:
    return torch.zeros(PARTS, experts, dtype=torch.int32, device=ids.device)
