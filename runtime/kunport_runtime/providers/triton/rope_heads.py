"""The parts of rotary embedding: angles of a token, and the vectors of its heads as pairs, normed and stored."""

import triton
import triton.language as tl

from kunport_runtime.providers.triton.cache_write import store


@triton.jit
def angles(
    cos_sin, positions, token, cos_sin_stride, axis_stride,
    HALF: tl.constexpr, HALF_PAD: tl.constexpr, AXES: tl.constexpr, BLOCKS: tl.constexpr,
    FIRST: tl.constexpr, SECOND: tl.constexpr, THIRD: tl.constexpr, FOURTH: tl.constexpr,
):  # fmt: skip
    """Cosines and sines [1, HALF_PAD] of a token; with several AXES each frequency takes its position from one of them.

    FIRST .. FOURTH: frequencies of each axis; BLOCKS: they lie one axis after the other, else in turn while they last.
    """
    frequency = tl.arange(0, HALF_PAD)
    if AXES == 1:
        position = tl.load(positions + token).to(tl.int64)
    else:
        if BLOCKS:
            axis = (frequency >= FIRST).to(tl.int32) + (frequency >= FIRST + SECOND).to(tl.int32)
            axis += (frequency >= FIRST + SECOND + THIRD).to(tl.int32)
        else:
            axis = frequency % AXES
            count = tl.where(axis < 2, tl.where(axis == 0, FIRST, SECOND), tl.where(axis == 2, THIRD, FOURTH))
            axis = tl.where(frequency < AXES * count, axis, 0)
        axis = tl.minimum(axis, AXES - 1)
        position = tl.load(positions + axis * axis_stride + token).to(tl.int64)
    row = cos_sin + position * cos_sin_stride + frequency
    cos = tl.load(row, mask=frequency < HALF, other=0.0).to(tl.float32)
    sin = tl.load(row + HALF, mask=frequency < HALF, other=0.0).to(tl.float32)
    return cos[None, :], sin[None, :]


@triton.jit
def load_heads(
    vectors, head_stride, HEADS: tl.constexpr, HEADS_PAD: tl.constexpr, D: tl.constexpr,
    HALF: tl.constexpr, HALF_PAD: tl.constexpr, REST_PAD: tl.constexpr, INTERLEAVED: tl.constexpr,
):  # fmt: skip
    """Vectors [HEADS, D] as float32: firsts and seconds of the pairs, and the rest, which does not rotate."""
    row = vectors + tl.arange(0, HEADS_PAD)[:, None] * head_stride
    live = (tl.arange(0, HEADS_PAD) < HEADS)[:, None]
    x, y = _load_pairs(row, live, HEADS_PAD, HALF, HALF_PAD, INTERLEAVED)
    rest = 2 * HALF + tl.arange(0, REST_PAD)[None, :]
    z = tl.load(row + rest, mask=live & (rest < D), other=0.0).to(tl.float32)
    return x, y, z


@triton.jit
def _load_pairs(row, live, ROWS: tl.constexpr, HALF: tl.constexpr, HALF_PAD: tl.constexpr, INTERLEAVED: tl.constexpr):
    if INTERLEAVED:
        column = tl.arange(0, 2 * HALF_PAD)[None, :]
        both = tl.load(row + column, mask=live & (column < 2 * HALF), other=0.0).to(tl.float32)
        x, y = tl.split(tl.reshape(both, [ROWS, HALF_PAD, 2]))
    else:
        column = tl.arange(0, HALF_PAD)[None, :]
        x = tl.load(row + column, mask=live & (column < HALF), other=0.0).to(tl.float32)
        y = tl.load(row + HALF + column, mask=live & (column < HALF), other=0.0).to(tl.float32)
    return x, y


@triton.jit
def _store_pairs(
    row, x, y, live, scale, largest, ROWS: tl.constexpr, HALF: tl.constexpr, HALF_PAD: tl.constexpr,
    INTERLEAVED: tl.constexpr, FP8: tl.constexpr,
):  # fmt: skip
    if INTERLEAVED:
        column = tl.arange(0, 2 * HALF_PAD)[None, :]
        both = tl.reshape(tl.join(x, y), [ROWS, 2 * HALF_PAD])
        store(row + column, both, scale, largest, live & (column < 2 * HALF), FP8)
    else:
        column = tl.arange(0, HALF_PAD)[None, :]
        store(row + column, x, scale, largest, live & (column < HALF), FP8)
        store(row + HALF + column, y, scale, largest, live & (column < HALF), FP8)


@triton.jit
def _square_sum(x, DTYPE: tl.constexpr, CAST: tl.constexpr):
    squares = x * x
    if CAST == "none":
        squares = squares.to(DTYPE).to(tl.float32)
    return tl.sum(squares, 1, keep_dims=True)


@triton.jit
def _scaled(x, root, weight, offset, DTYPE: tl.constexpr, CAST: tl.constexpr):
    """The product of x, root and weight + offset, rounded to DTYPE where CAST says so, and at the end."""
    y = x * root
    if CAST != "after_weight":
        y = y.to(DTYPE).to(tl.float32)
    scale = weight + offset
    if CAST == "none":
        scale = scale.to(DTYPE).to(tl.float32)
    return (y * scale).to(DTYPE).to(tl.float32)


@triton.jit
def norm(
    x, y, z, weight, epsilon, offset, DTYPE: tl.constexpr, HEADS: tl.constexpr, HEADS_PAD: tl.constexpr,
    D: tl.constexpr, HALF: tl.constexpr, HALF_PAD: tl.constexpr, REST_PAD: tl.constexpr, INTERLEAVED: tl.constexpr,
    CAST: tl.constexpr, ALL_HEADS: tl.constexpr,
):  # fmt: skip
    """RMSNorm of each head, weight [D], or of all together, weight [HEADS, D]; x, y, z as `load_heads` gives them."""
    if ALL_HEADS:  # the weights are on their way before the sums are waited for
        a, b, c = load_heads(weight, D, HEADS, HEADS_PAD, D, HALF, HALF_PAD, REST_PAD, INTERLEAVED)
    else:
        a, b, c = load_heads(weight, D, 1, 1, D, HALF, HALF_PAD, REST_PAD, INTERLEAVED)
    mean = _square_sum(x, DTYPE, CAST) + _square_sum(y, DTYPE, CAST) + _square_sum(z, DTYPE, CAST)
    if ALL_HEADS:
        mean = tl.sum(mean, 0, keep_dims=True) / (HEADS * D)
    else:
        mean = mean / D
    if CAST == "none":
        mean = (mean.to(DTYPE).to(tl.float32) + epsilon).to(DTYPE).to(tl.float32)
        root = tl.rsqrt(mean).to(DTYPE).to(tl.float32)
    else:
        root = tl.rsqrt(mean + epsilon)
    return (
        _scaled(x, root, a, offset, DTYPE, CAST),
        _scaled(y, root, b, offset, DTYPE, CAST),
        _scaled(z, root, c, offset, DTYPE, CAST),
    )


@triton.jit
def store_heads(
    vectors, x, y, z, head_stride, heads, scale, largest, HEADS_PAD: tl.constexpr, D: tl.constexpr,
    HALF: tl.constexpr, HALF_PAD: tl.constexpr, REST_PAD: tl.constexpr, INTERLEAVED: tl.constexpr,
    PAIRS_ONLY: tl.constexpr, FP8: tl.constexpr,
):  # fmt: skip
    """Store the first `heads` vectors; PAIRS_ONLY: not the rest, which nothing changed."""
    row = vectors + tl.arange(0, HEADS_PAD)[:, None] * head_stride
    live = (tl.arange(0, HEADS_PAD) < heads)[:, None]
    _store_pairs(row, x, y, live, scale, largest, HEADS_PAD, HALF, HALF_PAD, INTERLEAVED, FP8)
    if D > 2 * HALF and not PAIRS_ONLY:
        rest = 2 * HALF + tl.arange(0, REST_PAD)[None, :]
        store(row + rest, z, scale, largest, live & (rest < D), FP8)
