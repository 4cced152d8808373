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
    distances,  # [KEYS] float32, from the origin that ALiBi is counted from
    slopes,  # [ROWS] float32, ALiBi slopes in units of `factor`
    inner,  # scale / cap
    SOFTCAP: tl.constexpr,
    ALIBI: tl.constexpr,
):
    """Soft cap, then ALiBi's bias, both less what they add to all keys of a query alike (`lead`).

    Softmax does not see that, and it saves a division and several additions a score. The cap: (tanh(inner * s) - 1) / 2
    is -1 / (1 + exp(2 * inner * s)), and `factor` is twice the cap.
    """
    if SOFTCAP:
        root = tl.rsqrt(1.0 + tl.exp2(scores * (inner * 2.0 * LOG2E)))
        scores = -root * root
    if ALIBI:
        scores += slopes[:, None] * distances[None, :]
    return scores


@triton.jit
def lead(
    slopes,  # [ROWS] float32, in units of `factor`
    ahead,  # [ROWS] or a number: ALiBi's origin - the query's position
    factor,
    SOFTCAP: tl.constexpr,
    ALIBI: tl.constexpr,
):
    """What `transform` left out of the scores of a row, times `factor`: a sink is a score too, and is lowered by it."""
    left = slopes * 0.0
    if SOFTCAP:
        left += 0.5 * factor
    if ALIBI:
        left += slopes * ahead * factor
    return left


@triton.jit
def for_cache(query, factor, inner, CACHE: tl.constexpr, SOFTCAP: tl.constexpr):
    """Queries in the dtype of the products with a cache of dtype CACHE, with the factor and inner that go with them.

    float16 holds every fp8 number, and devices get there in one step; so bfloat16 queries go there too, times the power
    of two that brings the largest of the tile to 2^14: what is 2^38 times smaller than that is lost. Weights, which are
    at most 1, lose what is below 2^-25, so that a sum over n keys is off by n * 2^-25 of itself at most.
    """
    if CACHE.is_fp8() and query.dtype == tl.bfloat16:
        wide = query.to(tl.float32)
        largest = tl.minimum(tl.maximum(tl.max(tl.max(tl.abs(wide), 1), 0), 1.0e-30), 1.0e38)
        times = tl.exp2(14.0 - tl.floor(tl.log2(largest)))
        query = (wide * times).to(tl.float16)
        if SOFTCAP:
            inner = inner / times
        else:
            factor = factor / times
    return query, factor, inner


@triton.jit
def widened(values, DTYPE: tl.constexpr):
    """Values of a cache in the dtype of the products.

    fp8 takes the way over float16, which is exact, and float32: the short one to bfloat16 runs at a quarter of the rate
    on a device that the kernels were measured on.
    """
    if values.dtype.is_fp8():
        if tl.float16 == DTYPE:
            return values.to(tl.float16)
        return values.to(tl.float16).to(tl.float32).to(DTYPE)
    return values.to(DTYPE)


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
