"""The vendor's mixture of experts: the choice, sorting by expert, products of sorted rows, and the way back."""

from __future__ import annotations

import torch
from torch import Tensor

from kunport_runtime.simulator.rules import require

MOST_EXPERTS = 512
SMALL = 400  # pairs of token and expert, from which on fused_moe does not work
WRONG_ACTIVATION = 1024  # tokens, from which on moe_fc's own activation is wrong


def moe_softmax_topk(x: Tensor, normed_score: Tensor, topk_index: Tensor, block_statistic: Tensor | None) -> None:
    """The largest of the softmax of ``x`` ``[tokens, experts]`` float32, not renormalised; of equals the first."""
    _softmax_choice(x, normed_score, topk_index, renormalize=False)


def moe_softmax_topk_norm(
    x: Tensor, normed_score: Tensor, topk_index: Tensor, block_statistic: Tensor | None, stable: bool = True
) -> None:
    """The same, renormalised."""
    _softmax_choice(x, normed_score, topk_index, renormalize=True)


def moe_sigmoid_group_topk_norm(
    x: Tensor,
    norm_score: Tensor,
    topk_index: Tensor,
    block_statistic: Tensor,
    bias: Tensor | None,
    n_group: int,
    topk_group: int,
    scale: float,
) -> None:
    """The best of ``sigmoid(x) + bias`` in the best groups (by their two best), weighted by their renormalised sigmoid.

    Where:
        x: ``[tokens, experts]`` float32.
        norm_score: ``[tokens, top_k]`` float32, written; ``topk_index`` int32 likewise.
        block_statistic: ``[blocks, experts]`` int32, the histogram of the choice in parts, written.
        bias: ``[experts]``, added for the choice only.
        n_group: groups of experts, of which ``topk_group`` may be chosen from.
        scale: a factor of all weights.
    """
    _hold_logits(x)
    require("experts_limit", x.shape[1] <= MOST_EXPERTS, f"{x.shape[1]} experts")
    scores = 1 / (1 + torch.exp(-x))
    choice = scores if bias is None else scores + bias.float()
    if n_group > 1:
        groups = choice.view(len(choice), n_group, -1)
        quality = groups.topk(2, dim=-1).values.sum(-1)
        order = quality.argsort(dim=-1, descending=True, stable=True)
        left_out = torch.ones_like(quality, dtype=torch.bool).scatter(1, order[:, :topk_group], False)
        choice = groups.masked_fill(left_out.unsqueeze(-1), -torch.inf).flatten(-2)
    chosen = choice.argsort(dim=-1, descending=True, stable=True)[:, : topk_index.shape[1]]
    weights = scores.gather(1, chosen)
    topk_index.copy_(chosen)
    norm_score.copy_(weights / weights.sum(-1, keepdim=True) * scale)
    gen_block_statistic(topk_index, block_statistic)


def gen_block_statistic(topk_ids: Tensor, block_statistic: Tensor) -> None:
    """How many choices fall on each expert, in as many parts as ``block_statistic`` ``[parts, experts]`` has rows."""
    for row, part in zip(block_statistic, topk_ids.flatten().tensor_split(len(block_statistic)), strict=True):
        row.copy_(torch.bincount(part[part >= 0].long(), minlength=block_statistic.shape[1]))


def moe_pre_sorted(
    x: Tensor,
    topk_index: Tensor,
    block_statistic: Tensor,
    moe_expand: Tensor,
    moe_index: Tensor,
    expert_m: Tensor,
    sorted_tokens_num_lod: Tensor,
) -> None:
    """Rows of ``x`` in the order of their experts.

    Where:
        x: ``[tokens, hidden]``.
        topk_index: ``[tokens, top_k]`` int32.
        block_statistic: of `gen_block_statistic`.
        moe_expand: ``[tokens * top_k, hidden]``: the rows, written.
        moe_index: ``[tokens * top_k]`` int32: where the row of each choice went, written.
        expert_m: ``[experts]`` int32: rows of each expert, written.
        sorted_tokens_num_lod: ``[experts + 1]`` int32: where those of each start, written.
    """
    experts, ids = len(expert_m), topk_index.flatten().long()
    require("experts_limit", experts <= MOST_EXPERTS, f"{experts} experts")
    require("expert_ids", bool((ids >= 0).all()), f"experts {ids[ids < 0].tolist()}")
    counts = torch.bincount(ids, minlength=experts)
    same = torch.equal(block_statistic.sum(0), counts)
    require("block_statistic", same, "the histogram is of another choice")
    order = ids.argsort(stable=True)
    moe_expand.copy_(x[order // topk_index.shape[1]])
    moe_index[order] = torch.arange(len(order), dtype=moe_index.dtype)
    expert_m.copy_(counts)
    sorted_tokens_num_lod[0] = 0
    sorted_tokens_num_lod[1:] = counts.cumsum(0)


def moe_fc(
    x: Tensor,
    weight: Tensor,
    sorted_tokens_num_lod: Tensor,
    sorted_tokens_idx: Tensor,
    moe_topk: int,
    y: Tensor,
    act: str | None = None,
    topk_ids: Tensor | None = None,
) -> None:
    """Sorted rows ``x`` ``[tokens * top_k, in]`` times their experts' ``weight`` ``[experts, out, in]``, into ``y``
    ``[tokens, top_k, out]``, in the same order.
    """
    tokens = len(x) // moe_topk
    require("moe_activation", act is None or tokens < WRONG_ACTIVATION, f"{act} of {tokens} tokens")
    if act is not None:
        raise NotImplementedError("The simulator has moe_fc without activation only.")
    for each in (x, weight, y):
        require("product_contiguous", each.is_contiguous(), f"an operand with strides {each.stride()}")
    starts, rows = sorted_tokens_num_lod.tolist(), y.view(len(x), -1)
    for expert, matrix in enumerate(weight):
        part = slice(starts[expert], starts[expert + 1])
        rows[part] = (x[part].float() @ matrix.float().T).to(y.dtype)


def moe_post(x: Tensor, moe_index: Tensor, normed_scale: Tensor, dequant_scale: Tensor, y: Tensor) -> None:
    """The weighted sum of each token's rows.

    Where:
        x: ``[tokens, top_k, hidden]``, in the order of experts.
        moe_index: ``[tokens, top_k]``: where the row of each choice is.
        normed_scale: ``[tokens, top_k]`` float32; ``dequant_scale`` is a further factor.
        y: ``[tokens, hidden]``, written.
    """
    rows = x.flatten(0, 1)[moe_index.long()].float()
    y.copy_((rows * (normed_scale * dequant_scale).unsqueeze(-1)).sum(1))


def fused_moe(
    x: Tensor,
    w1: Tensor,
    w2: Tensor,
    normed_score: Tensor,
    sorted_tokens_num_lod: Tensor,
    sorted_tokens_idx: Tensor,
    experts_num_lod: Tensor,
) -> Tensor:
    """All of it for few tokens: ``[tokens, top_k, hidden]``, weighted, to be summed.

    What its last three arguments hold is not public, so that it is held against its rule and not computed.
    """
    require("fused_moe_small", normed_score.numel() < SMALL, f"{normed_score.numel()} pairs")
    raise NotImplementedError("The simulator does not compute fused_moe.")


def _softmax_choice(x: Tensor, normed_score: Tensor, topk_index: Tensor, renormalize: bool) -> None:
    _hold_logits(x)
    weights = torch.exp(x - x.amax(-1, keepdim=True))
    weights = weights / weights.sum(-1, keepdim=True)
    chosen = weights.argsort(dim=-1, descending=True, stable=True)[:, : topk_index.shape[1]]
    picked = weights.gather(1, chosen)
    topk_index.copy_(chosen)
    normed_score.copy_(picked / picked.sum(-1, keepdim=True) if renormalize else picked)


def _hold_logits(x: Tensor) -> None:
    require("router_float32", x.dtype == torch.float32, f"logits of {x.dtype}")


OPERATORS = (
    "moe_softmax_topk",
    "moe_softmax_topk_norm",
    "moe_sigmoid_group_topk_norm",
    "gen_block_statistic",
    "moe_pre_sorted",
    "moe_fc",
    "moe_post",
    "fused_moe",
)
