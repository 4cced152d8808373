"""States of a few numbers a channel, which is nobody else's: RG-LRU and the time mixing of RWKV 4.

A program has the states of some channels of one sequence in registers. (Prompts go token by token too.)
"""

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton import tuning
from kunport_runtime.providers.triton.gated_activation import sigmoid
from kunport_runtime.providers.triton.sequences import exp, one_minus_exp, sequence_of, softplus

# `block`: channels that a program takes.
DEFAULTS: tuning.Config = {"block": 128, "warps": 1}
LOWEST = tl.constexpr(-1.0e38)  # the exponent of nothing


@triton.jit
def _rg_lru(
    out, x, input_gate, recurrence_gate, a_parameter, state, starts, slots, initials, channels,
    out_stride, x_stride, input_stride, recurrence_stride, BLOCK: tl.constexpr,
):  # fmt: skip
    """Program (sequence, block of channels), blocks fastest."""
    blocks = tl.cdiv(channels, BLOCK)
    first, end, slot, known = sequence_of(tl.program_id(0) // blocks, starts, slots, initials)
    if first >= end:
        return
    channel = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    inside = channel < channels
    rate = -8.0 * softplus(tl.load(a_parameter + channel, mask=inside, other=0.0).to(tl.float32))
    h = tl.load(state + slot * channels + channel, mask=tl.where(known, inside, False), other=0.0).to(tl.float32)
    for token in range(first, end):
        values = tl.load(x + token * x_stride + channel, mask=inside, other=0.0).to(tl.float32)
        gates = tl.load(input_gate + token * input_stride + channel, mask=inside, other=0.0).to(tl.float32)
        recurrence = tl.load(recurrence_gate + token * recurrence_stride + channel, mask=inside, other=0.0)
        log_a = rate * sigmoid(recurrence.to(tl.float32))
        entering = sigmoid(gates) * values
        root = tl.where((token == first) & (known == 0), 1.0, tl.sqrt(one_minus_exp(2.0 * log_a)))
        h = exp(log_a) * h + root * entering
        tl.store(out + token * out_stride + channel, h.to(out.dtype.element_ty), mask=inside)
    tl.store(state + slot * channels + channel, h.to(state.dtype.element_ty), mask=inside)


def rg_lru(
    *,
    out: torch.Tensor,
    x: torch.Tensor,
    input_gate: torch.Tensor,
    recurrence_gate: torch.Tensor,
    a_parameter: torch.Tensor,
    state: torch.Tensor,
    query_start_loc: torch.Tensor,
    state_slots: torch.Tensor,
    has_initial_state: torch.Tensor,
) -> None:
    """Out, x and both gates [T, channels], a_parameter [channels]; state [slots, channels] is updated."""
    tokens, channels = x.shape
    if not tokens:
        return
    config = tuning.lookup("rg_lru", x.dtype, x.device, DEFAULTS, rows=tokens, size=channels)
    block = min(config["block"], triton.next_power_of_2(channels))
    _rg_lru[(state_slots.shape[0] * triton.cdiv(channels, block),)](
        out, x, input_gate, recurrence_gate, a_parameter, state, query_start_loc, state_slots, has_initial_state,
        channels, out.stride(0), x.stride(0), input_gate.stride(0), recurrence_gate.stride(0),
        BLOCK=block, num_warps=config["warps"],
    )  # fmt: skip


@triton.jit
def _rwkv(
    out, receptance, key, value, time_decay, time_first, state, starts, slots, initials, channels,
    out_stride, receptance_stride, key_stride, value_stride, BLOCK: tl.constexpr,
):  # fmt: skip
    """Program (sequence, block of channels), blocks fastest; sums are relative to the largest exponent so far."""
    blocks = tl.cdiv(channels, BLOCK)
    first, end, slot, known = sequence_of(tl.program_id(0) // blocks, starts, slots, initials)
    if first >= end:
        return
    channel = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    inside = channel < channels
    decay = -exp(tl.load(time_decay + channel, mask=inside, other=0.0).to(tl.float32))
    own = tl.load(time_first + channel, mask=inside, other=0.0).to(tl.float32)
    kept = state + slot * 3 * channels + channel
    total = tl.load(kept, mask=tl.where(known, inside, False), other=0.0).to(tl.float32)
    weight = tl.load(kept + channels, mask=tl.where(known, inside, False), other=0.0).to(tl.float32)
    largest = tl.load(kept + 2 * channels, mask=tl.where(known, inside, False), other=0.0).to(tl.float32)
    largest = tl.where(known, largest, LOWEST)
    for token in range(first, end):
        k = tl.load(key + token * key_stride + channel, mask=inside, other=0.0).to(tl.float32)
        v = tl.load(value + token * value_stride + channel, mask=inside, other=0.0).to(tl.float32)
        r = tl.load(receptance + token * receptance_stride + channel, mask=inside, other=0.0).to(tl.float32)
        top = tl.maximum(largest, own + k)
        before = exp(largest - top)
        now = exp(own + k - top)
        mean = (before * total + now * v) / (before * weight + now)
        tl.store(out + token * out_stride + channel, (sigmoid(r) * mean).to(out.dtype.element_ty), mask=inside)
        top = tl.maximum(largest + decay, k)
        before = exp(largest + decay - top)
        now = exp(k - top)
        total = before * total + now * v
        weight = before * weight + now
        largest = top
    tl.store(kept, total.to(state.dtype.element_ty), mask=inside)
    tl.store(kept + channels, weight.to(state.dtype.element_ty), mask=inside)
    tl.store(kept + 2 * channels, largest.to(state.dtype.element_ty), mask=inside)


def rwkv(
    *,
    out: torch.Tensor,
    receptance: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    time_decay: torch.Tensor,
    time_first: torch.Tensor,
    state: torch.Tensor,
    query_start_loc: torch.Tensor,
    state_slots: torch.Tensor,
    has_initial_state: torch.Tensor,
) -> None:
    """Out, receptance, key and value [T, channels], time_decay and time_first [channels].

    state [slots, 3, channels] (sum of values, sum of weights, largest exponent) is updated.
    """
    tokens, channels = value.shape
    if not tokens:
        return
    config = tuning.lookup("rwkv", value.dtype, value.device, DEFAULTS, rows=tokens, size=channels)
    block = min(config["block"], triton.next_power_of_2(channels))
    _rwkv[(state_slots.shape[0] * triton.cdiv(channels, block),)](
        out, receptance, key, value, time_decay, time_first, state, query_start_loc, state_slots, has_initial_state,
        channels, out.stride(0), receptance.stride(0), key.stride(0), value.stride(0),
        BLOCK=block, num_warps=config["warps"],
    )  # fmt: skip
