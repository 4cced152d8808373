"""The real-gated linear recurrent unit of Griffin and RecurrentGemma, over prompts and single tokens alike.

    log_a = -8 * sigmoid(recurrence_gate) * softplus(a_parameter)
    h     = exp(log_a) * h + sqrt(1 - exp(2 * log_a)) * sigmoid(input_gate) * x
    out   = h

At the first token of a sequence without a state nothing is kept and the root is 1. The state is float32 within a call
and rounded into its own dtype at the end. De and others, 2024, https://arxiv.org/abs/2402.19427.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.nn import functional

from kunport_runtime.operators.contract import Case, Contract, reads, writes
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.numerics import wide
from kunport_runtime.operators.state.ragged import BATCHES, SEQUENCES, TOLERANCE, sequences, state_argument


def reference(
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
    """One token after the other."""
    log_a = -8 * wide(recurrence_gate).sigmoid() * functional.softplus(wide(a_parameter))
    kept = log_a.exp()
    entering = wide(input_gate).sigmoid() * wide(x)
    scaled = torch.sqrt(-torch.expm1(2 * log_a)) * entering
    for start, end, slot, initial in sequences(query_start_loc, state_slots, has_initial_state):
        h = wide(state[slot])
        for t in range(start, end):
            h = entering[t] if t == start and not initial else kept[t] * h + scaled[t]
            out[t] = h.to(out.dtype)
        state[slot] = h.to(state.dtype)


def cases(draw: Draw) -> Iterator[Case]:
    """Each kind of batch."""
    for batch, channels in zip(BATCHES, (64, 40, 33), strict=True):
        yield Case(
            f"{batch.label}, {channels} channels",
            {
                "out": draw.poison(batch.tokens, channels),
                "x": draw.normal(batch.tokens, channels, spare=8),
                "input_gate": draw.normal(batch.tokens, channels),
                "recurrence_gate": draw.normal(batch.tokens, channels),
                "a_parameter": draw.normal(channels),
                "state": draw.normal(batch.slots, channels),
                **batch.arguments(draw),
            },
        )


CONTRACT = Contract(
    name="rg_lru",
    arguments=(
        writes("out", "tokens, channels", "the result", like="x"),
        reads("x", "tokens, channels", "of all sequences, one after the other"),
        reads("input_gate", "tokens, channels", "before its sigmoid"),
        reads("recurrence_gate", "tokens, channels", "before its sigmoid"),
        reads("a_parameter", "channels", "before its softplus"),
        state_argument("state", "channels", "of each channel"),
        *SEQUENCES,
    ),
    reference=reference,
    cases=cases,
    tolerance=TOLERANCE,
    dtype_of="x",
)
