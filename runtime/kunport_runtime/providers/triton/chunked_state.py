"""States of prompts, a chunk of tokens at a time: products of matrices instead of a long chain of tokens.

It serves what has one decay a head and token: linear attention, the gated delta rule and the scan of Mamba 2, which is
linear attention with ``c`` as query, ``b`` as key and ``dt * x`` as value. Within a chunk, token i reads of token j
``exp(sum of decays after j, to i) * (query_i . key_j)`` times what j wrote; all before the chunk is the state.
The delta rule's writes depend on each other: they are ``(I + T)^-1`` times what they were alone, T strictly lower
triangular. (Dao and Gu 2024, https://arxiv.org/abs/2405.21060; Yang and others 2024, https://arxiv.org/abs/2412.06464.)
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton import tuning
from kunport_runtime.providers.triton.sequences import exp, sequence_of, softplus

# `chunk`: tokens; `columns`: of a head's state, that a program has. Both at least 16, the least that a product takes.
DEFAULTS: tuning.Config = {"chunk": 16, "columns": 32, "warps": 4}
LARGEST_KEY = 128  # beyond it a program's state, queries and keys are more than its registers


@triton.jit
def _rows(pointer, token, stride, column, inside):
    return tl.load(pointer + token[:, None] * stride + column[None, :], mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _units(x):
    return x * tl.rsqrt(tl.sum(x * x, 1) + 1e-6)[:, None]


@triton.jit
def _inverse(lower, CHUNK: tl.constexpr):
    """(I + lower)^-1 of a strictly lower triangular matrix, row after row: its powers would cancel."""
    row = tl.arange(0, CHUNK)
    found = tl.where(row[:, None] == row[None, :], 1.0, 0.0)
    for number in range(1, CHUNK):
        one = tl.sum(tl.where((row == number)[:, None], lower, 0.0), 0)
        change = tl.sum(one[:, None] * tl.where((row < number)[:, None], found, 0.0), 0)
        found -= tl.where((row == number)[:, None], change[None, :], 0.0)
    return found


@triton.jit
def _chunked_state(
    out, query, key, value, decay, beta, steps, step_bias, skip, state, starts, slots, initials, scale, dt_min, dt_max,
    out_token_stride, out_head_stride, query_token_stride, query_head_stride, key_token_stride, key_head_stride,
    value_token_stride, value_head_stride, decay_token_stride, decay_head_stride, beta_stride, step_stride,
    HEADS: tl.constexpr, SHARE: tl.constexpr, KEY: tl.constexpr, KEY_PAD: tl.constexpr, VALUE: tl.constexpr,
    KEY_STRIDE: tl.constexpr, VALUE_STRIDE: tl.constexpr, CHUNK: tl.constexpr, COLUMNS: tl.constexpr,
    NORMALIZE: tl.constexpr, SOFTPLUS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Program (sequence, head, block of columns). SHARE: heads that have one query and key; beta None: no delta rule;
    steps: a token's own factor of its head's decay and of its value, or None.
    """
    BLOCKS: tl.constexpr = (VALUE + COLUMNS - 1) // COLUMNS
    program = tl.program_id(0)
    column = program % BLOCKS * COLUMNS + tl.arange(0, COLUMNS)
    head = program // BLOCKS % HEADS
    first, end, slot, known = sequence_of(program // (BLOCKS * HEADS), starts, slots, initials)
    if first >= end:
        return
    row = tl.arange(0, KEY_PAD)
    inside = (row < KEY)[:, None] & (column < VALUE)[None, :]
    place = (slot * HEADS + head) * KEY * VALUE + row[:, None] * KEY_STRIDE + column[None, :] * VALUE_STRIDE
    memory = tl.load(state + place, mask=tl.where(known, inside, False), other=0.0).to(tl.float32)
    query += head // SHARE * query_head_stride
    key += head // SHARE * key_head_stride
    value += head * value_head_stride
    decay += head * decay_head_stride
    out += head * out_head_stride
    place_in_chunk = tl.arange(0, CHUNK)
    after = place_in_chunk[:, None] > place_in_chunk[None, :]
    for start in range(first, end, CHUNK):
        token = start + place_in_chunk
        real = token < end
        keyed = real[:, None] & (row < KEY)[None, :]
        valued = real[:, None] & (column < VALUE)[None, :]
        q = _rows(query, token, query_token_stride, row, keyed)
        k = _rows(key, token, key_token_stride, row, keyed)
        v = _rows(value, token, value_token_stride, column, valued)
        if NORMALIZE:
            q = _units(q)
            k = _units(k)
        lost = tl.load(decay + token * decay_token_stride, mask=real, other=0.0).to(tl.float32)
        written = v
        if steps is not None:
            size = tl.load(steps + token * step_stride + head, mask=real, other=0.0).to(tl.float32)
            if step_bias is not None:
                size += tl.load(step_bias + head).to(tl.float32)
            if SOFTPLUS:
                size = softplus(size)
            size = tl.where(real, tl.minimum(tl.maximum(size, dt_min), dt_max), 0.0)
            lost *= size
            written = size[:, None] * v
        # Sums of the decays between two tokens, not differences of sums from the start, which cancel.
        between = tl.where(after, lost[:, None], 0.0)
        kept = exp(tl.where(place_in_chunk[:, None] >= place_in_chunk[None, :], tl.cumsum(between, 0), float("-inf")))
        from_start = exp(tl.cumsum(lost, 0))[:, None]
        if beta is not None:
            share = tl.load(beta + token * beta_stride + head, mask=real, other=0.0).to(tl.float32)[:, None]
            alike = tl.dot(k, tl.trans(k), input_precision=PRECISION)
            recalled = from_start * tl.dot(k, memory, input_precision=PRECISION)
            solved = _inverse(tl.where(after, share * kept * alike, 0.0), CHUNK)
            written = tl.dot(solved, share * (v - recalled), input_precision=PRECISION)
        scores = kept * tl.dot(q, tl.trans(k), input_precision=PRECISION)
        result = from_start * tl.dot(q, memory, input_precision=PRECISION)
        result = scale * tl.dot(scores, written, result, input_precision=PRECISION)
        if skip is not None:
            result += tl.load(skip + head).to(tl.float32) * v
        address = out + token[:, None] * out_token_stride + column[None, :]
        tl.store(address, result.to(out.dtype.element_ty), mask=valued)
        remaining = k * exp(tl.sum(between, 0))[:, None]
        memory = exp(tl.sum(lost, 0)) * memory
        memory = tl.dot(tl.trans(remaining), written, memory, input_precision=PRECISION)
    tl.store(state + place, memory.to(state.dtype.element_ty), mask=inside)


@dataclass(frozen=True, slots=True)
class Steps:
    """What a scan of Mamba 2 has besides: steps [T, H], their bias, limits and whether softplus, and d [H]."""

    sizes: torch.Tensor
    bias: torch.Tensor | None
    softplus: bool
    low: float
    high: float
    skip: torch.Tensor | None


def takes(sequences: int, tokens: int, key_dim: int) -> bool:
    """Whether a batch is to be computed in chunks: some sequence has more than one token, and its keys fit."""
    return tokens > sequences and key_dim <= LARGEST_KEY


def launch(
    operator: str,
    out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    decay: torch.Tensor,
    decay_strides: tuple[int, ...],
    state: torch.Tensor,
    state_strides: tuple[int, int],
    batch: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    *,
    scale: float = 1.0,
    beta: torch.Tensor | None = None,
    normalize: bool = False,
    steps: Steps | None = None,
) -> None:
    """Out and value [T, H, VALUE], query and key [T, key heads, KEY]; strides of the decay by token and by head.

    state [slots, H, ...] has KEY * VALUE elements a head, with the strides given by key and by value.
    """
    (tokens, heads, value_dim), (key_heads, key_dim) = value.shape, key.shape[1:]
    name = f"{operator}_chunks"
    config = tuning.lookup(name, query.dtype, query.device, DEFAULTS, rows=tokens, size=key_dim)
    columns = min(config["columns"], max(16, triton.next_power_of_2(value_dim)))
    sizes, low, high = (steps.sizes, steps.low, steps.high) if steps is not None else (None, 0.0, 0.0)
    _chunked_state[(batch[1].shape[0] * heads * triton.cdiv(value_dim, columns),)](
        out, query, key, value, decay, beta, sizes, steps.bias if steps is not None else None,
        steps.skip if steps is not None else None, state, *batch, scale, low, high,
        *out.stride()[:2], *query.stride()[:2], *key.stride()[:2], *value.stride()[:2], *decay_strides,
        beta.stride(0) if beta is not None else 0, sizes.stride(0) if sizes is not None else 0,
        HEADS=heads, SHARE=heads // key_heads, KEY=key_dim, KEY_PAD=max(16, triton.next_power_of_2(key_dim)),
        VALUE=value_dim, KEY_STRIDE=state_strides[0], VALUE_STRIDE=state_strides[1], CHUNK=config["chunk"],
        COLUMNS=columns, NORMALIZE=normalize, SOFTPLUS=steps is not None and steps.softplus,
        # Half precision is exact in tf32, and what is made of it has three bits more there.
        PRECISION="ieee" if query.dtype == torch.float32 else "tf32", num_warps=config["warps"],
    )  # fmt: skip
