"""Choosing the experts of each token: scores, the best groups, the best experts, their weights; a row in registers."""

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton import tuning
from kunport_runtime.providers.triton.gated_activation import sigmoid
from kunport_runtime.providers.triton.softmax import LOG2E

# `elements`: about how many scores a program takes; at least those of one token.
DEFAULTS: tuning.Config = {"elements": 1024, "warps": 4}
# The choice of an expert in a group that is not among the best: below any score, above what is no expert at all.
OUTSIDE = tl.constexpr(-3.0e38)


@triton.jit
def _best_groups(choice, TOP_GROUPS: tl.constexpr, TWO: tl.constexpr):
    """Choice [ROWS, GROUPS, PER], OUTSIDE the best groups; TWO: a group is as good as its two best together."""
    groups = tl.arange(0, choice.shape[1])[None, :]
    experts = tl.arange(0, choice.shape[2])[None, None, :]
    quality = tl.max(choice, 2)
    if TWO:
        best = tl.argmax(choice, 2)
        quality += tl.max(tl.where(experts == best[:, :, None], float("-inf"), choice), 2)
    kept = groups < 0
    for _ in tl.static_range(TOP_GROUPS):
        best = tl.argmax(quality, 1)
        here = groups == best[:, None]
        kept = kept | here
        quality = tl.where(here, float("-inf"), quality)
    return tl.where(kept[:, :, None] | (choice == float("-inf")), choice, OUTSIDE)


@triton.jit(do_not_specialize=["tokens"])
def _expert_routing(
    weights, ids, logits, bias, scale, tokens, weights_stride, ids_stride, logits_stride,
    TOP_K: tl.constexpr, TOP_K_PAD: tl.constexpr, GROUPS: tl.constexpr, GROUPS_PAD: tl.constexpr,
    PER: tl.constexpr, PER_PAD: tl.constexpr, TOP_GROUPS: tl.constexpr, TWO: tl.constexpr,
    SOFTMAX: tl.constexpr, RENORMALIZE: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Program: ROWS tokens. Experts lie as [GROUPS_PAD, PER_PAD], flat where groups are of no matter."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    group = tl.arange(0, GROUPS_PAD)[None, :, None]
    within = tl.arange(0, PER_PAD)[None, None, :]
    real = (group < GROUPS) & (within < PER)
    place = row[:, None, None] * logits_stride + group * PER + within
    x = tl.load(logits + place, mask=(row < tokens)[:, None, None] & real, other=0.0).to(tl.float32)
    x = tl.where(real, x, float("-inf"))
    if SOFTMAX:
        top = tl.max(tl.max(x, 2), 1)
        scores = tl.exp2((x - top[:, None, None]) * LOG2E)
        scores = scores / tl.sum(tl.sum(scores, 2), 1)[:, None, None]
    else:
        scores = sigmoid(x)
    choice = scores
    if bias is not None:
        choice += tl.load(bias + group * PER + within, mask=real, other=0.0)
    choice = tl.where(real, choice, float("-inf"))
    if TOP_GROUPS < GROUPS:
        choice = _best_groups(choice, TOP_GROUPS, TWO)

    choice = tl.reshape(choice, [ROWS, GROUPS_PAD * PER_PAD])
    scores = tl.reshape(scores, [ROWS, GROUPS_PAD * PER_PAD])
    flat = tl.arange(0, GROUPS_PAD * PER_PAD)[None, :]
    slot = tl.arange(0, TOP_K_PAD)[None, :]
    chosen = tl.zeros([ROWS, TOP_K_PAD], tl.int32)
    result = tl.zeros([ROWS, TOP_K_PAD], tl.float32)
    for number in range(TOP_K):
        best = tl.argmax(choice, 1)[:, None]  # of equals the first, which has the lowest id
        score = tl.sum(tl.where(flat == best, scores, 0.0), 1)[:, None]
        chosen = tl.where(slot == number, best // PER_PAD * PER + best % PER_PAD, chosen)
        result = tl.where(slot == number, score, result)
        choice = tl.where(flat == best, float("-inf"), choice)
    if RENORMALIZE:
        result = result / (tl.sum(result, 1)[:, None] + 1e-20)
    stored = (row < tokens)[:, None] & (slot < TOP_K)
    tl.store(weights + row[:, None] * weights_stride + slot, result * scale, mask=stored)
    tl.store(ids + row[:, None] * ids_stride + slot, chosen, mask=stored)


def expert_routing(
    *,
    weights: torch.Tensor,
    ids: torch.Tensor,
    logits: torch.Tensor,
    correction_bias: torch.Tensor | None,
    scoring: str,
    renormalize: bool,
    groups: int = 1,
    top_groups: int = 1,
    group_score: str = "maximum",
    scale: float = 1.0,
) -> None:
    """Weights float32 and ids int32 [tokens, top_k] of logits [tokens, experts], correction_bias [experts] or None.

    scoring: "softmax" or "sigmoid"; group_score: "maximum" or "top_two_sum".
    """
    tokens, experts = logits.shape
    top_k = ids.shape[1]
    if not tokens:
        return
    config = tuning.lookup("expert_routing", logits.dtype, logits.device, DEFAULTS, rows=tokens, experts=experts)
    per = experts // groups
    groups_pad, per_pad = triton.next_power_of_2(groups), triton.next_power_of_2(per)
    rows = max(1, config["elements"] // (groups_pad * per_pad))
    _expert_routing[(triton.cdiv(tokens, rows),)](
        weights, ids, logits, correction_bias, scale, tokens, weights.stride(0), ids.stride(0), logits.stride(0),
        TOP_K=top_k, TOP_K_PAD=triton.next_power_of_2(top_k), GROUPS=groups, GROUPS_PAD=groups_pad,
        PER=per, PER_PAD=per_pad, TOP_GROUPS=top_groups, TWO=group_score == "top_two_sum",
        SOFTMAX=scoring == "softmax", RENORMALIZE=renormalize, ROWS=rows, num_warps=config["warps"],
    )  # fmt: skip
