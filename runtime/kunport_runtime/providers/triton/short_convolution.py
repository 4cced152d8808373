"""A causal convolution of each channel over the last few tokens of its sequence, and the inputs that it leaves.

Two kernels, since every tile of a sequence's first tokens reads the state that its last ones replace.
"""

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton import tuning
from kunport_runtime.providers.triton.gated_activation import sigmoid
from kunport_runtime.providers.triton.sequences import sequence_of
from kunport_runtime.providers.triton.tiles import owner

# `rows`: tokens, `block`: channels that a program takes.
DEFAULTS: tuning.Config = {"rows": 16, "block": 128, "warps": 4}


@triton.jit
def _inputs(x, state, position, first, slot, known, channel, inside, x_stride, channels, BEFORE: tl.constexpr):
    """Inputs [tokens, channels] at positions of a sequence, where its first token is 0 and before it is its state."""
    new = position >= 0
    place = (first + position)[:, None] * x_stride + channel[None, :]
    values = tl.load(x + place, mask=new[:, None] & inside, other=0.0)
    row = state + (slot * channels + channel[None, :]) * BEFORE
    old = tl.load(
        row + (position + BEFORE)[:, None], mask=tl.where(known, (position < 0)[:, None] & inside, False), other=0.0
    )
    return tl.where(new[:, None], values, old.to(values.dtype))


@triton.jit(do_not_specialize=["sequences"])
def _convolve(
    out, x, weight, bias, state, starts, slots, initials, sequences, channels, out_stride, x_stride, weight_stride,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, SILU: tl.constexpr,
):  # fmt: skip
    """Program (tile of tokens, block of channels), blocks fastest."""
    blocks = tl.cdiv(channels, BLOCK)
    sequence, _, end, begin = owner(starts, sequences, tl.program_id(0) // blocks, ROWS, 1)
    first, _, slot, known = sequence_of(sequence, starts, slots, initials)
    if (begin < first) | (begin >= end):
        return
    token = begin.to(tl.int64) + tl.arange(0, ROWS)
    channel = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    inside = (token < end)[:, None] & (channel < channels)[None, :]
    total = tl.zeros([ROWS, BLOCK], tl.float32)
    for number in tl.static_range(WIDTH):
        position = token - first - (WIDTH - 1) + number
        values = _inputs(x, state, position, first, slot, known, channel, inside, x_stride, channels, WIDTH - 1)
        factor = tl.load(weight + channel * weight_stride + number, mask=channel < channels, other=0.0)
        total += values.to(tl.float32) * factor.to(tl.float32)[None, :]
    if bias is not None:
        total += tl.load(bias + channel, mask=channel < channels, other=0.0).to(tl.float32)[None, :]
    if SILU:
        total *= sigmoid(total)
    tl.store(out + token[:, None] * out_stride + channel[None, :], total.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _keep(
    x, state, starts, slots, initials, channels, x_stride,
    BEFORE: tl.constexpr, BEFORE_PAD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Program (sequence, block of channels): its last inputs, some of which may have been its state's, become that."""
    blocks = tl.cdiv(channels, BLOCK)
    first, end, slot, known = sequence_of(tl.program_id(0) // blocks, starts, slots, initials)
    if first >= end:
        return
    channel = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    number = tl.arange(0, BEFORE_PAD)
    inside = (number < BEFORE)[:, None] & (channel < channels)[None, :]
    position = end - first - BEFORE + number
    values = _inputs(x, state, position, first, slot, known, channel, inside, x_stride, channels, BEFORE)
    place = (slot * channels + channel[None, :]) * BEFORE + number[:, None]
    tl.store(state + place, values.to(state.dtype.element_ty), mask=inside)


def short_convolution(
    *,
    out: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    state: torch.Tensor,
    query_start_loc: torch.Tensor,
    state_slots: torch.Tensor,
    has_initial_state: torch.Tensor,
    activation: str = "silu",
) -> None:
    """Out [T, channels] of x [T, channels], weight [channels, width], bias [channels] or None.

    state [slots, channels, width - 1] holds the inputs before each sequence, and then the last ones; activation: "silu"
    or "none".
    """
    tokens, channels = x.shape
    sequences, width = state_slots.shape[0], weight.shape[1]
    if not tokens:
        return
    config = tuning.lookup("short_convolution", x.dtype, x.device, DEFAULTS, rows=tokens, size=channels)
    rows = config["rows"] if tokens > sequences else 1
    block = min(config["block"], triton.next_power_of_2(channels))
    blocks = triton.cdiv(channels, block)
    _convolve[((tokens // rows + sequences) * blocks,)](
        out, x, weight, bias, state, query_start_loc, state_slots, has_initial_state, sequences, channels,
        out.stride(0), x.stride(0), weight.stride(0), WIDTH=width, ROWS=rows, BLOCK=block, SILU=activation == "silu",
        num_warps=config["warps"],
    )  # fmt: skip
    if width > 1:
        _keep[(sequences * blocks,)](
            x, state, query_start_loc, state_slots, has_initial_state, channels, x.stride(0),
            BEFORE=width - 1, BEFORE_PAD=triton.next_power_of_2(width - 1), BLOCK=block, num_warps=config["warps"],
        )  # fmt: skip
