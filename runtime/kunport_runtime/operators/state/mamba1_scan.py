"""The selective scan of Mamba, over prompts and single tokens alike.

For each channel, with a state of ``state_size`` numbers:

    dt = softplus(dt + dt_bias)                          softplus only with ``dt_softplus``
    h  = exp(dt * a) * h + dt * b * x
    y  = c . h + d * x, times silu(gate)

The state is float32 within a call and rounded into its own dtype at the end. Gu and Dao, 2023,
https://arxiv.org/abs/2312.00752.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.nn import functional

from kunport_runtime.operators.contract import Case, Contract, option, reads, writes
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.numerics import wide
from kunport_runtime.operators.state.ragged import BATCHES, SEQUENCES, TOLERANCE, sequences, state_argument


def reference(
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
    dt_softplus: bool,
    query_start_loc: torch.Tensor,
    state_slots: torch.Tensor,
    has_initial_state: torch.Tensor,
) -> None:
    """One token after the other."""
    steps = wide(dt) if dt_bias is None else wide(dt) + wide(dt_bias)
    steps = functional.softplus(steps) if dt_softplus else steps
    for start, end, slot, initial in sequences(query_start_loc, state_slots, has_initial_state):
        h = wide(state[slot]).clone() if initial else torch.zeros_like(wide(state[slot]))
        for t in range(start, end):
            step, value = steps[t].unsqueeze(1), wide(x[t])
            h = torch.exp(step * a) * h + step * value.unsqueeze(1) * wide(b[t])
            y = h @ wide(c[t])
            if d is not None:
                y = y + wide(d) * value
            if gate is not None:
                y = y * functional.silu(wide(gate[t]))
            out[t] = y.to(out.dtype)
        state[slot] = h.to(state.dtype)


def cases(draw: Draw) -> Iterator[Case]:
    """Each kind of batch, with and without what may be left away."""
    forms = ((64, 16, True, True), (40, 8, False, True), (33, 16, True, False))
    for batch, (channels, state_size, extras, softplus) in zip(BATCHES, forms, strict=True):
        tokens = batch.tokens
        yield Case(
            f"{batch.label}, {channels} channels of {state_size}{'' if extras else ', bare'}",
            {
                "out": draw.poison(tokens, channels),
                "x": draw.normal(tokens, channels),
                "dt": draw.normal(tokens, channels) if softplus else draw.uniform(tokens, channels),
                "a": -draw.uniform(channels, state_size, low=0.1, high=2.0, dtype=torch.float32),
                "b": draw.normal(tokens, state_size, scale=state_size**-0.5),
                "c": draw.normal(tokens, state_size, spare=8),
                "d": draw.normal(channels) if extras else None,
                "gate": draw.normal(tokens, channels) if extras else None,
                "dt_bias": draw.normal(channels) if extras else None,
                "state": draw.normal(batch.slots, channels, state_size),
                "dt_softplus": softplus,
                **batch.arguments(draw),
            },
        )


CONTRACT = Contract(
    name="mamba1_scan",
    arguments=(
        writes("out", "tokens, channels", "the result", like="x"),
        reads("x", "tokens, channels", "of all sequences, one after the other"),
        reads("dt", "tokens, channels", "the step of each token"),
        reads("a", "channels, state_size", "negative: how fast states decay", dtypes=("float32",)),
        reads("b", "tokens, state_size", "what goes into the state"),
        reads("c", "tokens, state_size", "what comes out of it"),
        reads("d", "channels", "what goes past it", optional=True),
        reads("gate", "tokens, channels", "before its activation", optional=True),
        reads("dt_bias", "channels", "added to the step", optional=True),
        state_argument("state", "channels, state_size", "of each channel"),
        option("dt_softplus", bool, "whether the step goes through a softplus", default=True),
        *SEQUENCES,
    ),
    reference=reference,
    cases=cases,
    tolerance=TOLERANCE,
    dtype_of="x",
)
