"""Formulas in numpy that several tests hold references against."""

from __future__ import annotations

import math

import numpy as np
from judging import EightBits


def nearest(values: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """The number of ``grid`` that is nearest to each value; of two the one an even number of steps from 0."""
    above = np.clip(np.searchsorted(grid, values), 1, len(grid) - 1)
    low, high = grid[above - 1], grid[above]
    even = (above - np.searchsorted(grid, 0.0)) % 2 == 0
    return np.where((high - values < values - low) | ((high - values == values - low) & even), high, low)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0, x)


def softmax(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def activated(x: np.ndarray, activation: str, alpha: float = 1.0) -> np.ndarray:
    if activation in ("gelu", "gelu_tanh"):
        inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
        share = 0.5 * (1 + (np.vectorize(math.erf)(x / np.sqrt(2)) if activation == "gelu" else np.tanh(inner)))
        return x * share
    return {
        "silu": lambda: x / (1 + np.exp(-alpha * x)),
        "relu": lambda: np.where(x > 0, x, 0),
        "relu_squared": lambda: np.where(x > 0, x * x, 0),
        "sigmoid": lambda: sigmoid(x),
        "tanh": lambda: np.tanh(x),
        "identity": lambda: x,
    }[activation]()


def gated(x, activation, packing, alpha, limit, up_offset):
    size = x.shape[-1] // 2
    pairs = (
        x.reshape(*x.shape[:-1], size, 2) if packing == "interleaved" else np.stack((x[..., :size], x[..., size:]), -1)
    )
    gate, up = pairs[..., 0], pairs[..., 1]
    if limit:
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    return activated(gate, activation, alpha) * (up + up_offset)


def root_mean_square(x, weight, epsilon, offset=0.0):
    normed = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon)
    return normed if weight is None else normed * (weight + offset)


def written(cache, rows, slots, scale):
    """A cache ``[blocks, block_size, ...]`` after rows were written to their slots."""
    result = cache.copy()
    for row, slot in zip(rows, slots, strict=True):
        if slot >= 0:
            stored = nearest(row / scale, cache.grid) if isinstance(cache, EightBits) else row
            result[slot // cache.shape[1], slot % cache.shape[1]] = stored
    return result


def attended(queries, keys, values, scale, window=0, softcap=0.0, sinks=None, slopes=None):
    """Attention of the last positions of one sequence, query by query and head by head.

    queries [n, heads, d], keys [length, kv_heads, d], values [length, kv_heads, dv].
    """
    count, heads, _ = queries.shape
    share = heads // keys.shape[1]
    result = np.zeros((count, heads, values.shape[-1]))
    for row in range(count):
        position = len(keys) - count + row
        first = max(0, position - window + 1) if window else 0
        seen = np.arange(first, position + 1)
        for head in range(heads):
            score = scale * keys[seen, head // share] @ queries[row, head]
            score = softcap * np.tanh(score / softcap) if softcap else score
            score = score if slopes is None else score + slopes[head] * (seen - position)
            score = score if sinks is None else np.append(score, sinks[head])
            weights = softmax(score)[: len(seen)]
            result[row, head] = weights @ values[seen, head // share]
    return result


def paged(cache, table, length):
    """The rows of a sequence."""
    size = cache.shape[1]
    return np.array([cache[table[at // size], at % size] for at in range(length)]).reshape(length, *cache.shape[2:])


def attend_each(out, queries, caches, block_tables, query_start_loc, seq_lens, attend):
    """``attend(queries, *rows of each cache)`` of every sequence; rows of nobody stay as they are."""
    result = out.copy()
    for index, length in enumerate(seq_lens):
        start, end = query_start_loc[index], query_start_loc[index + 1]
        if end > start:
            rows = [paged(cache, block_tables[index], length) for cache in caches]
            result[start:end] = attend(queries[start:end], *rows)
    return result


def scanned(out, states, query_start_loc, state_slots, has_initial_state, step):
    """``step(t, *states) -> (result, *states)`` over the tokens of every sequence.

    ``states`` are arrays [slots, ...], or pairs of one and the value at the start of a sequence without a state.
    """
    starts = [each[1] if isinstance(each, tuple) else 0.0 for each in states]
    result, finals = out.copy(), [(each[0] if isinstance(each, tuple) else each).copy() for each in states]
    for index, slot in enumerate(state_slots):
        start, end = query_start_loc[index], query_start_loc[index + 1]
        now = [
            each[slot] if has_initial_state[index] else np.full(each[slot].shape, value)
            for each, value in zip(finals, starts, strict=True)
        ]
        for t in range(start, end):
            result[t], *now = step(t, *now)
        if end > start:
            for each, value in zip(finals, now, strict=True):
                each[slot] = value
    return (result, *finals)
