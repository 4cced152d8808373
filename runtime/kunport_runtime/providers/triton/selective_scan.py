"""The scans of Mamba and Mamba 2: one loop over a sequence's tokens, its state in registers.

Mamba is Mamba 2 with one head of all channels, whose step and decay are each channel's own. (Gu and Dao 2023; Dao and
Gu 2024.) Prompts of Mamba 2 are `chunked_state`'s, those of Mamba go token by token too.
"""

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton import chunked_state, tuning
from kunport_runtime.providers.triton.gated_activation import sigmoid
from kunport_runtime.providers.triton.sequences import exp, sequence_of, softplus

# `elements`: of the state that a program has: those of whole channels.
DEFAULTS: tuning.Config = {"elements": 4096, "warps": 4}


@triton.jit
def _selective_scan(
    out, x, dt, a, b, c, d, gate, dt_bias, state, starts, slots, initials, dt_min, dt_max,
    out_token_stride, out_head_stride, x_token_stride, x_head_stride, dt_stride, a_stride,
    b_token_stride, b_group_stride, c_token_stride, c_group_stride, gate_stride,
    HEADS: tl.constexpr, SHARE: tl.constexpr, DIM: tl.constexpr, STATE: tl.constexpr, STATE_PAD: tl.constexpr,
    ROWS: tl.constexpr, OWN_STEPS: tl.constexpr, SOFTPLUS: tl.constexpr, CLAMPED: tl.constexpr,
):  # fmt: skip
    """Program (sequence, head, block of its channels). SHARE: heads that have one b and c; OWN_STEPS: a channel has its
    own dt, a [DIM, STATE], d and dt_bias, and there is one head; else they are a head's.
    """
    BLOCKS: tl.constexpr = (DIM + ROWS - 1) // ROWS
    program = tl.program_id(0)
    row = program % BLOCKS * ROWS + tl.arange(0, ROWS)
    head = program // BLOCKS % HEADS
    first, end, slot, known = sequence_of(program // (BLOCKS * HEADS), starts, slots, initials)
    if first >= end:
        return
    column = tl.arange(0, STATE_PAD)
    real = row < DIM
    unit = row if OWN_STEPS else tl.zeros([ROWS], tl.int32) + head
    inside = real[:, None] & (column < STATE)[None, :]
    if OWN_STEPS:
        rate = tl.load(a + row[:, None] * a_stride + column[None, :], mask=inside, other=0.0)
    else:
        rate = tl.load(a + unit)[:, None]
    place = ((slot * HEADS + head) * DIM + row)[:, None] * STATE + column[None, :]
    h = tl.load(state + place, mask=tl.where(known, inside, False), other=0.0).to(tl.float32)
    added = tl.zeros([ROWS], tl.float32)
    if dt_bias is not None:
        added = tl.load(dt_bias + unit, mask=real, other=0.0).to(tl.float32)
    past = tl.zeros([ROWS], tl.float32)
    if d is not None:
        past = tl.load(d + unit, mask=real, other=0.0).to(tl.float32)
    group = head // SHARE
    for token in range(first, end):
        values = tl.load(x + token * x_token_stride + head * x_head_stride + row, mask=real, other=0.0).to(tl.float32)
        size = tl.load(dt + token * dt_stride + unit, mask=real, other=0.0).to(tl.float32) + added
        if SOFTPLUS:
            size = softplus(size)
        if CLAMPED:
            size = tl.minimum(tl.maximum(size, dt_min), dt_max)
        own_b = b + token * b_token_stride + group * b_group_stride
        own_c = c + token * c_token_stride + group * c_group_stride
        into = tl.load(own_b + column, mask=column < STATE, other=0.0).to(tl.float32)
        out_of = tl.load(own_c + column, mask=column < STATE, other=0.0).to(tl.float32)
        h = exp(size[:, None] * rate) * h + (size * values)[:, None] * into[None, :]
        y = tl.sum(h * out_of[None, :], 1) + past * values
        if gate is not None:
            gates = tl.load(gate + token * gate_stride + row, mask=real, other=0.0).to(tl.float32)
            y *= gates * sigmoid(gates)
        tl.store(out + token * out_token_stride + head * out_head_stride + row, y.to(out.dtype.element_ty), mask=real)
    tl.store(state + place, h.to(state.dtype.element_ty), mask=inside)


def mamba1_scan(
    *,
    out: torch.Tensor,
    x: torch.Tensor,
    dt: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    d: torch.Tensor | None,
    gate: torch.Tensor | None,
    dt_bias: torch.Tensor | None,
    state: torch.Tensor,
    query_start_loc: torch.Tensor,
    state_slots: torch.Tensor,
    has_initial_state: torch.Tensor,
    dt_softplus: bool = True,
) -> None:
    """Out, x, dt and gate [T, channels], a [channels, N] float32, b and c [T, N], d and dt_bias [channels] or None.

    state [slots, channels, N] is updated.
    """
    _scan(
        "mamba1_scan", out.unsqueeze(1), x.unsqueeze(1), dt, a, b.unsqueeze(1), c.unsqueeze(1), d, gate, dt_bias,
        state.unsqueeze(1), (query_start_loc, state_slots, has_initial_state), dt_softplus, None,
    )  # fmt: skip


def mamba2_scan(
    *,
    out: torch.Tensor,
    x: torch.Tensor,
    dt: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    d: torch.Tensor | None,
    dt_bias: torch.Tensor | None,
    state: torch.Tensor,
    query_start_loc: torch.Tensor,
    state_slots: torch.Tensor,
    has_initial_state: torch.Tensor,
    dt_softplus: bool = True,
    dt_min: float = 0.0,
    dt_max: float = float("inf"),
) -> None:
    """Out and x [T, H, head_dim], dt [T, H], a [H] float32, b and c [T, groups, N], d and dt_bias [H] or None.

    state [slots, H, head_dim, N] is updated; steps are cut to dt_min .. dt_max.
    """
    _scan(
        "mamba2_scan", out, x, dt, a.unsqueeze(1), b, c, d, None, dt_bias, state,
        (query_start_loc, state_slots, has_initial_state), dt_softplus, (dt_min, dt_max),
    )  # fmt: skip


def _scan(
    operator: str,
    out: torch.Tensor,
    x: torch.Tensor,
    dt: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    d: torch.Tensor | None,
    gate: torch.Tensor | None,
    dt_bias: torch.Tensor | None,
    state: torch.Tensor,
    batch: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    dt_softplus: bool,
    bounds: tuple[float, float] | None,
) -> None:
    """Out and x [T, H, DIM], b and c [T, groups, N], state [slots, H, DIM, N]; bounds of the steps, or None."""
    tokens, heads, size = x.shape
    sequences, state_size = batch[1].shape[0], state.shape[3]
    if not tokens:
        return
    if bounds is not None and chunked_state.takes(sequences, tokens, state_size):
        chunked_state.launch(
            operator, out, c, b, x, a, (0, a.stride(0)), state, (1, state_size), batch,
            steps=chunked_state.Steps(dt, dt_bias, dt_softplus, *bounds, d),
        )  # fmt: skip
        return
    config = tuning.lookup(operator, x.dtype, x.device, DEFAULTS, rows=tokens, size=heads * size)
    state_pad = triton.next_power_of_2(state_size)
    rows = min(max(1, config["elements"] // state_pad), triton.next_power_of_2(size))
    _selective_scan[(sequences * heads * triton.cdiv(size, rows),)](
        out, x, dt, a, b, c, d, gate, dt_bias, state, *batch, *(bounds or (0.0, 0.0)),
        *out.stride()[:2], *x.stride()[:2], dt.stride(0), a.stride(0), *b.stride()[:2], *c.stride()[:2],
        gate.stride(0) if gate is not None else 0,
        HEADS=heads, SHARE=heads // b.shape[1], DIM=size, STATE=state_size, STATE_PAD=state_pad,
        ROWS=rows, OWN_STEPS=operator == "mamba1_scan", SOFTPLUS=dt_softplus, CLAMPED=bounds is not None,
        num_warps=config["warps"],
    )  # fmt: skip
