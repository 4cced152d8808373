"""Linear attention and the gated delta rule: one loop over a sequence's tokens, a matrix in registers for each head.

The delta rule writes the difference to what the matrix recalls, where linear attention writes the value itself. Columns
of the matrix do not depend on each other, so that a program takes some of them. Prompts are `chunked_state`'s, but
where each row of the matrix has a decay of its own, or keys are very wide.
"""

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton import chunked_state, tuning
from kunport_runtime.providers.triton.sequences import exp, sequence_of

# `elements`: of a head's matrix, that a program has: whole columns.
DEFAULTS: tuning.Config = {"elements": 8192, "warps": 4}


@triton.jit
def _unit(x):
    return x * tl.rsqrt(tl.sum(x * x, 0) + 1e-6)


@triton.jit
def _matrix_state(
    out, query, key, value, decay, beta, state, starts, slots, initials, scale,
    out_token_stride, out_head_stride, query_token_stride, query_head_stride, key_token_stride, key_head_stride,
    value_token_stride, value_head_stride, decay_token_stride, decay_head_stride, beta_stride,
    HEADS: tl.constexpr, SHARE: tl.constexpr, KEY: tl.constexpr, KEY_PAD: tl.constexpr, VALUE: tl.constexpr,
    COLUMNS: tl.constexpr, SPAN: tl.constexpr, NORMALIZE: tl.constexpr,
):  # fmt: skip
    """Program (sequence, head, block of columns). SHARE: heads that have one query and key; SPAN: rows that have one
    decay; beta None: no delta rule.
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
    place = ((slot * HEADS + head) * KEY + row)[:, None] * VALUE + column[None, :]
    memory = tl.load(state + place, mask=tl.where(known, inside, False), other=0.0).to(tl.float32)
    key_head = head // SHARE
    query += key_head * query_head_stride
    key += key_head * key_head_stride
    value += head * value_head_stride
    decay += head * decay_head_stride
    out += head * out_head_stride
    for token in range(first, end):
        q = tl.load(query + token * query_token_stride + row, mask=row < KEY, other=0.0).to(tl.float32)
        k = tl.load(key + token * key_token_stride + row, mask=row < KEY, other=0.0).to(tl.float32)
        v = tl.load(value + token * value_token_stride + column, mask=column < VALUE, other=0.0).to(tl.float32)
        kept = exp(tl.load(decay + token * decay_token_stride + row // SPAN, mask=row < KEY, other=0.0))
        if NORMALIZE:
            q = _unit(q)
            k = _unit(k)
        memory *= kept[:, None]
        if beta is not None:
            share = tl.load(beta + token * beta_stride + head).to(tl.float32)
            v = share * (v - tl.sum(memory * k[:, None], 0))
        memory += k[:, None] * v[None, :]
        result = scale * tl.sum(memory * q[:, None], 0)
        tl.store(out + token * out_token_stride + column, result.to(out.dtype.element_ty), mask=column < VALUE)
    tl.store(state + place, memory.to(state.dtype.element_ty), mask=inside)


def linear_attention(
    *,
    out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    decay: torch.Tensor,
    state: torch.Tensor,
    scale: float,
    query_start_loc: torch.Tensor,
    state_slots: torch.Tensor,
    has_initial_state: torch.Tensor,
) -> None:
    """Out and value [T, H, value_dim], query and key [T, H, key_dim], decay [H] float32 (the logarithm).

    state [slots, H, key_dim, value_dim] is updated.
    """
    batch = query_start_loc, state_slots, has_initial_state
    _launch("linear_attention", out, query, key, value, decay, (0, 1), key.shape[2], None, state, scale, batch, False)


def gated_delta_rule(
    *,
    out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    decay: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor,
    scale: float,
    normalize: bool,
    query_start_loc: torch.Tensor,
    state_slots: torch.Tensor,
    has_initial_state: torch.Tensor,
) -> None:
    """Out and value [T, H, value_dim], query and key [T, key_heads, key_dim], beta [T, H].

    decay [T, H, 1 or key_dim] float32 (the logarithm); normalize: queries and keys are brought to length one. state
    [slots, H, key_dim, value_dim] is updated.
    """
    batch = query_start_loc, state_slots, has_initial_state
    _launch(
        "gated_delta_rule",
        out,
        query,
        key,
        value,
        decay,
        decay.stride()[:2],
        key.shape[2] // decay.shape[2],
        beta,
        state,
        scale,
        batch,
        normalize,
    )


def _launch(
    operator: str,
    out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    decay: torch.Tensor,
    decay_strides: tuple[int, ...],
    decay_span: int,
    beta: torch.Tensor | None,
    state: torch.Tensor,
    scale: float,
    batch: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    normalize: bool,
) -> None:
    tokens, heads, value_dim = value.shape
    sequences, (key_heads, key_dim) = batch[1].shape[0], key.shape[1:]
    if not tokens:
        return
    if decay_span == key_dim and chunked_state.takes(sequences, tokens, key_dim):
        chunked_state.launch(
            operator, out, query, key, value, decay, decay_strides, state, (value_dim, 1), batch,
            scale=scale, beta=beta, normalize=normalize,
        )  # fmt: skip
        return
    config = tuning.lookup(operator, query.dtype, query.device, DEFAULTS, rows=tokens, size=key_dim)
    key_pad = triton.next_power_of_2(key_dim)
    columns = min(max(1, config["elements"] // key_pad), triton.next_power_of_2(value_dim))
    _matrix_state[(sequences * heads * triton.cdiv(value_dim, columns),)](
        out, query, key, value, decay, beta, state, *batch, scale,
        *out.stride()[:2], *query.stride()[:2], *key.stride()[:2], *value.stride()[:2], *decay_strides,
        beta.stride(0) if beta is not None else 0,
        HEADS=heads, SHARE=heads // key_heads, KEY=key_dim, KEY_PAD=key_pad, VALUE=value_dim,
        COLUMNS=columns, SPAN=decay_span, NORMALIZE=normalize, num_warps=config["warps"],
    )  # fmt: skip
