"""The matrix memory of xLSTM: the matrix's columns over several programs, and then the vector and the exponent.

Two kernels, since every program of the first reads the vector and the exponent, which the second replaces.
"""

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton import tuning
from kunport_runtime.providers.triton.sequences import exp, sequence_of, softplus

# `elements`: of a head's matrix, that a program has: whole columns.
DEFAULTS: tuning.Config = {"elements": 8192, "warps": 4}


@triton.jit
def _gates(forget_gate, input_gate, place, m):
    """How much is kept, how much enters, and the exponent that both are relative to, from the one before."""
    forget = -softplus(-tl.load(forget_gate + place).to(tl.float32)) + m
    entering = tl.load(input_gate + place).to(tl.float32)
    top = tl.maximum(forget, entering)
    return exp(forget - top), exp(entering - top), top


@triton.jit
def _mlstm_matrix(
    out, query, key, value, input_gate, forget_gate, memory, normalizer, maximum, starts, slots, initials,
    scale, epsilon, out_token_stride, out_head_stride, query_token_stride, query_head_stride,
    key_token_stride, key_head_stride, value_token_stride, value_head_stride, input_stride, forget_stride,
    HEADS: tl.constexpr, KEY: tl.constexpr, KEY_PAD: tl.constexpr, VALUE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Program (sequence, head, block of columns); results and matrix are stored, vector and exponent are not."""
    BLOCKS: tl.constexpr = (VALUE + COLUMNS - 1) // COLUMNS
    program = tl.program_id(0)
    column = program % BLOCKS * COLUMNS + tl.arange(0, COLUMNS)
    head = program // BLOCKS % HEADS
    first, end, slot, known = sequence_of(program // (BLOCKS * HEADS), starts, slots, initials)
    if first >= end:
        return
    row = tl.arange(0, KEY_PAD)
    inside = (row < KEY)[:, None] & (column < VALUE)[None, :]
    unit = slot * HEADS + head
    place = (unit * KEY + row)[:, None] * VALUE + column[None, :]
    c = tl.load(memory + place, mask=tl.where(known, inside, False), other=0.0).to(tl.float32)
    n = tl.load(normalizer + unit * KEY + row, mask=tl.where(known, row < KEY, False), other=0.0).to(tl.float32)
    m = tl.load(maximum + unit, mask=known, other=0.0).to(tl.float32)
    for token in range(first, end):
        own_query = query + token * query_token_stride + head * query_head_stride
        own_key = key + token * key_token_stride + head * key_head_stride
        own_value = value + token * value_token_stride + head * value_head_stride
        q = tl.load(own_query + row, mask=row < KEY, other=0.0).to(tl.float32)
        k = tl.load(own_key + row, mask=row < KEY, other=0.0).to(tl.float32)
        v = tl.load(own_value + column, mask=column < VALUE, other=0.0).to(tl.float32)
        kept, entering, m = _gates(
            forget_gate + token * forget_stride, input_gate + token * input_stride, head, m
        )  # fmt: skip
        c = kept * c + (entering * k)[:, None] * v[None, :]
        n = kept * n + entering * k
        size = tl.maximum(scale * tl.abs(tl.sum(n * q, 0)), exp(-m)) + epsilon
        result = scale * tl.sum(c * q[:, None], 0) / size
        own_out = out + token * out_token_stride + head * out_head_stride
        tl.store(own_out + column, result.to(out.dtype.element_ty), mask=column < VALUE)
    tl.store(memory + place, c.to(memory.dtype.element_ty), mask=inside)


@triton.jit
def _mlstm_vector(
    key, input_gate, forget_gate, normalizer, maximum, starts, slots, initials,
    key_token_stride, key_head_stride, input_stride, forget_stride,
    HEADS: tl.constexpr, KEY: tl.constexpr, KEY_PAD: tl.constexpr,
):  # fmt: skip
    """Program (sequence, head): the same steps of the vector and the exponent alone."""
    head = tl.program_id(0) % HEADS
    first, end, slot, known = sequence_of(tl.program_id(0) // HEADS, starts, slots, initials)
    if first >= end:
        return
    row = tl.arange(0, KEY_PAD)
    unit = slot * HEADS + head
    n = tl.load(normalizer + unit * KEY + row, mask=tl.where(known, row < KEY, False), other=0.0).to(tl.float32)
    m = tl.load(maximum + unit, mask=known, other=0.0).to(tl.float32)
    for token in range(first, end):
        own_key = key + token * key_token_stride + head * key_head_stride
        k = tl.load(own_key + row, mask=row < KEY, other=0.0).to(tl.float32)
        kept, entering, m = _gates(
            forget_gate + token * forget_stride, input_gate + token * input_stride, head, m
        )  # fmt: skip
        n = kept * n + entering * k
    tl.store(normalizer + unit * KEY + row, n.to(normalizer.dtype.element_ty), mask=row < KEY)
    tl.store(maximum + unit, m.to(maximum.dtype.element_ty))


def mlstm(
    *,
    out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    input_gate: torch.Tensor,
    forget_gate: torch.Tensor,
    memory: torch.Tensor,
    normalizer: torch.Tensor,
    maximum: torch.Tensor,
    scale: float,
    epsilon: float,
    query_start_loc: torch.Tensor,
    state_slots: torch.Tensor,
    has_initial_state: torch.Tensor,
) -> None:
    """Out and value [T, H, value_dim], query and key [T, H, key_dim], input_gate and forget_gate [T, H].

    memory [slots, H, key_dim, value_dim], normalizer [slots, H, key_dim] and maximum [slots, H] are updated.
    """
    tokens, heads, value_dim = value.shape
    sequences, key_dim = state_slots.shape[0], key.shape[2]
    if not tokens:
        return
    config = tuning.lookup("mlstm", query.dtype, query.device, DEFAULTS, rows=tokens, size=key_dim)
    key_pad = triton.next_power_of_2(key_dim)
    columns = min(max(1, config["elements"] // key_pad), triton.next_power_of_2(value_dim))
    batch = query_start_loc, state_slots, has_initial_state
    shape = {"HEADS": heads, "KEY": key_dim, "KEY_PAD": key_pad}
    _mlstm_matrix[(sequences * heads * triton.cdiv(value_dim, columns),)](
        out, query, key, value, input_gate, forget_gate, memory, normalizer, maximum, *batch, scale, epsilon,
        *out.stride()[:2], *query.stride()[:2], *key.stride()[:2], *value.stride()[:2],
        input_gate.stride(0), forget_gate.stride(0), VALUE=value_dim, COLUMNS=columns, **shape,
        num_warps=config["warps"],
    )  # fmt: skip
    _mlstm_vector[(sequences * heads,)](
        key, input_gate, forget_gate, normalizer, maximum, *batch, *key.stride()[:2],
        input_gate.stride(0), forget_gate.stride(0), **shape, num_warps=config["warps"],
    )  # fmt: skip
