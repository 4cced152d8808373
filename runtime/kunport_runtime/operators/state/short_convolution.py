"""A causal convolution of each channel over the last few tokens of its sequence.

``out[t] = act(bias + sum over j of weight[:, j] * x[t - width + 1 + j])``. What lies before a sequence's first token
is its state, the ``width - 1`` inputs before it, oldest first, or zeros; afterwards the state holds the last ones.
Sums are float32, rounded once.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kunport_runtime.operators.contract import Case, Contract, option, reads, writes
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.numerics import activate, wide
from kunport_runtime.operators.state.ragged import BATCHES, SEQUENCES, TOLERANCE, sequences, state_argument


def reference(
    out: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    state: torch.Tensor,
    activation: str,
    query_start_loc: torch.Tensor,
    state_slots: torch.Tensor,
    has_initial_state: torch.Tensor,
) -> None:
    """One sequence after the other: a window of ``width`` slides over what was there and what is new."""
    width = weight.shape[1]
    for start, end, slot, initial in sequences(query_start_loc, state_slots, has_initial_state):
        before = state[slot].T if initial else torch.zeros_like(state[slot].T)
        inputs = torch.cat((before.to(x.dtype), x[start:end]))
        result = (wide(inputs).unfold(0, width, 1) * wide(weight)).sum(-1)
        if bias is not None:
            result = result + wide(bias)
        out[start:end] = (activate(result, "silu") if activation == "silu" else result).to(out.dtype)
        state[slot] = inputs[len(inputs) - width + 1 :].T.to(state.dtype)


def cases(draw: Draw) -> Iterator[Case]:
    """Each kind of batch; widths of 2, 3 and 4; with and without bias and activation."""
    forms = ((64, 4, True, "silu", 0), (40, 3, False, "none", 8), (33, 2, True, "none", 0))
    for batch, (channels, width, bias, activation, spare) in zip(BATCHES, forms, strict=True):
        yield Case(
            f"{batch.label}, {channels} channels, width {width}, {activation}",
            {
                "out": draw.poison(batch.tokens, channels),
                "x": draw.normal(batch.tokens, channels, spare=spare),
                "weight": draw.normal(channels, width, scale=width**-0.5),
                "bias": draw.normal(channels) if bias else None,
                "state": draw.normal(batch.slots, channels, width - 1),
                "activation": activation,
                **batch.arguments(draw),
            },
        )


CONTRACT = Contract(
    name="short_convolution",
    arguments=(
        writes("out", "tokens, channels", "the result", like="x"),
        reads("x", "tokens, channels", "of all sequences, one after the other"),
        reads("weight", "channels, width", "the oldest input's factor first"),
        reads("bias", "channels", "added to each token", optional=True),
        state_argument("state", "channels, width - 1", "the inputs before each sequence"),
        option("activation", str, "of the result", default="silu", choices=("silu", "none")),
        *SEQUENCES,
    ),
    reference=reference,
    cases=cases,
    tolerance=TOLERANCE,
    dtype_of="x",
)
