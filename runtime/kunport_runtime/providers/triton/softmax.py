"""The running softmax that decode and prefill share: one block of keys is folded into what came before.

Scores live in units of log2, since devices have an exponential of base 2: with `factor` = scale * log2(e),
softmax(scale * s) = exp2(factor * s - peak) / total. A transformed score (capped, biased) is kept in the same unit, so
that one multiply-add a score is left in the loop. (Milakov and Gimelshein 2018, "Online normalizer calculation for
softmax"; Dao 2023, "FlashAttention-2".)
"""

import math

import triton
import triton.language as tl

LOG2E = tl.constexpr(math.log2(math.e))
HIDDEN = tl.constexpr(float("-inf"))  # the score of a key that a query does not see
# Where the peak begins: below any score, yet finite, so that a block hidden as a whole gives weights exp2(-inf) = 0.
LOWEST = tl.constexpr(-1.0e20)


@triton.jit
def transform(
    scores,  # [ROWS, KEYS] float32
    query_positions,  # [ROWS]
    key_positions,  # [KEYS]
    slopes,  # [ROWS] float32, ALiBi slopes in units of `factor`
    inner,  # scale / cap
    SOFTCAP: tl.constexpr,
    ALIBI: tl.constexpr,
):
    """Soft cap, tanh(inner * s) in place of s, then ALiBi's bias: slope * (key position - query position)."""
    if SOFTCAP:
        scores = 1.0 - 2.0 / (1.0 + tl.exp2(scores * (inner * 2.0 * LOG2E)))
    if ALIBI:
        distance = key_positions[None, :] - query_positions[:, None]
        scores += slopes[:, None] * distance.to(tl.float32)
    return scores


@triton.jit
def fold(
    scores,  # [ROWS, KEYS] float32
    values,  # [KEYS, DV]
    accumulator,  # [ROWS, DV] float32, sum of weights times values, relative to `peak`
    total,  # [ROWS] float32, sum of weights, relative to `peak`
    peak,  # [ROWS] float32, greatest score so far times `factor`
    factor,
):
    """Fold one block of keys into the running softmax; returns the new accumulator, total and peak."""
    higher = tl.maximum(peak, tl.max(scores, 1) * factor)
    weights = tl.exp2(scores * factor - higher[:, None])
    shrink = tl.exp2(peak - higher)
    total = total * shrink + tl.sum(weights, 1)
    accumulator = accumulator * shrink[:, None]
    accumulator = tl.dot(weights.to(values.dtype), values, accumulator, input_precision="ieee")
    return accumulator, total, higher
