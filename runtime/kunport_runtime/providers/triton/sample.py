"""Choosing tokens: the most probable one, or a draw from those that top-k and top-p keep, without sorting.

A program takes a row and reads it several times. A token's distance is how far its scaled logit is below the largest:
not negative, so that its bits order as whole numbers do, and what top-k or top-p keep are the distances up to some
limit, found by bisection over the bits that tokens have. Rows that keep everything do not look for a limit.
"""

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton import tuning
from kunport_runtime.providers.triton.softmax import LOG2E

# `block`: logits that a program reads at a time.
DEFAULTS: tuning.Config = {"block": 4096, "warps": 8}
FARTHEST = tl.constexpr(0x7F800000)  # the bits of an infinite distance


@triton.jit
def _most_probable(row, vocab, BLOCK: tl.constexpr):
    """The first of the largest logits, and that logit."""
    largest = tl.full([BLOCK], float("-inf"), tl.float32)
    tokens = tl.zeros([BLOCK], tl.int32)
    for start in range(0, vocab, BLOCK):
        column = start + tl.arange(0, BLOCK)
        values = tl.load(row + column, mask=column < vocab, other=float("-inf")).to(tl.float32)
        tokens = tl.where(values > largest, column, tokens)
        largest = tl.maximum(largest, values)
    best = tl.max(largest, 0)
    return tl.min(tl.where(largest == best, tokens, vocab), 0), best


@triton.jit
def _distances(row, start, vocab, best, inverse, BLOCK: tl.constexpr):
    """Columns, and their bits and weights exp(-distance); beyond the vocabulary the distance is infinite."""
    column = start + tl.arange(0, BLOCK)
    values = tl.load(row + column, mask=column < vocab, other=float("-inf")).to(tl.float32)
    distance = (best - values) * inverse
    return column, distance.to(tl.int32, bitcast=True), tl.exp2(distance * -LOG2E)


@triton.jit
def _total(row, vocab, best, inverse, limit, BLOCK: tl.constexpr):
    """The sum of weights up to a limit."""
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, vocab, BLOCK):
        _, bits, weights = _distances(row, start, vocab, best, inverse, BLOCK)
        total += tl.where(bits <= limit, weights, 0.0)
    return tl.sum(total, 0)


@triton.jit
def _limit(row, vocab, best, inverse, high, wanted, BLOCK: tl.constexpr, COUNT: tl.constexpr):
    """The least limit, up to `high`, that has so many tokens (COUNT) or so much weight: k, or more where its last has
    equals; or all before which there is less than p.
    """
    low = 0
    while low < high:
        middle = low + (high - low) // 2
        amount = tl.zeros([BLOCK], tl.float32)
        below = tl.zeros([BLOCK], tl.int32)  # the bits next to the middle that a token has, on each side
        above = tl.full([BLOCK], FARTHEST, tl.int32)
        for start in range(0, vocab, BLOCK):
            _, bits, weights = _distances(row, start, vocab, best, inverse, BLOCK)
            within = bits <= middle
            if COUNT:
                weights = tl.full([BLOCK], 1.0, tl.float32)
            amount += tl.where(within, weights, 0.0)
            below = tl.maximum(below, tl.where(within, bits, 0))
            above = tl.minimum(above, tl.where(within, FARTHEST, bits))
        enough = tl.sum(amount, 0) >= wanted
        low = tl.where(enough, low, tl.minimum(tl.min(above, 0), high))
        high = tl.where(enough, tl.max(below, 0), high)
    return low


@triton.jit
def _draw(row, vocab, best, inverse, limit, threshold, BLOCK: tl.constexpr):
    """The first token up to the limit at which the sum of weights exceeds the threshold; the last, where none does."""
    before = 0.0
    drawn = vocab
    last = 0
    start = 0
    while (start < vocab) & (drawn == vocab):
        column, bits, weights = _distances(row, start, vocab, best, inverse, BLOCK)
        kept = (bits <= limit) & (weights > 0.0)
        weights = tl.where(kept, weights, 0.0)
        here = kept & (before + tl.cumsum(weights, 0) > threshold)
        drawn = tl.min(tl.where(here, column, vocab), 0)
        last = tl.maximum(last, tl.max(tl.where(kept, column, 0), 0))
        before += tl.sum(weights, 0)
        start += BLOCK
    return tl.where(drawn < vocab, drawn, last)


@triton.jit
def _sample(
    out, logits, temperature, top_k, top_p, uniform, vocab, logits_stride, BLOCK: tl.constexpr, GREEDY: tl.constexpr
):
    number = tl.program_id(0).to(tl.int64)
    row = logits + number * logits_stride
    token, best = _most_probable(row, vocab, BLOCK)
    if not GREEDY:
        heat = tl.load(temperature + number)
        if heat != 0.0:
            inverse = 1.0 / heat
            limit = FARTHEST
            k = tl.load(top_k + number)
            if (k > 0) & (k < vocab):
                limit = _limit(row, vocab, best, inverse, limit, k, BLOCK, True)
            total = _total(row, vocab, best, inverse, limit, BLOCK)
            p = tl.load(top_p + number)
            if p < 1.0:
                limit = _limit(row, vocab, best, inverse, limit, p * total, BLOCK, False)
                total = _total(row, vocab, best, inverse, limit, BLOCK)
            token = _draw(row, vocab, best, inverse, limit, tl.load(uniform + number) * total, BLOCK)
    tl.store(out + number, token.to(tl.int64))


def sample(
    *,
    out: torch.Tensor,
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    uniform: torch.Tensor,
    greedy: bool = False,
) -> None:
    """Out [rows] int64 of logits [rows, vocab]; temperature, top_p, uniform float32 and top_k int32 [rows].

    temperature 0 or greedy: the most probable token; top_k 0 and top_p 1 keep all. No host waits for the device.
    """
    rows, vocab = logits.shape
    if not rows:
        return
    config = tuning.lookup("sample", logits.dtype, logits.device, DEFAULTS, rows=rows, size=vocab)
    _sample[(rows,)](
        out, logits, temperature, top_k, top_p, uniform, vocab, logits.stride(0),
        BLOCK=min(config["block"], triton.next_power_of_2(vocab)), GREEDY=greedy, num_warps=config["warps"],
    )  # fmt: skip
