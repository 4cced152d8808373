"""The attention-free time mixing of RWKV 4, over prompts and single tokens alike.

For each channel a mean of all values so far, weighted by ``exp(key)`` with a decay of ``exp(-exp(time_decay))`` a
step, in which the token's own value counts with ``exp(time_first + key)``; its sigmoid of ``receptance`` times that
mean is the result. The state holds the sum of weighted values, the sum of weights, and the largest exponent, to which
both are relative: ``[slots, 3, channels]``, float32 within a call and rounded into its own dtype at the end. Peng and
others, 2023, https://arxiv.org/abs/2305.13048. RWKV 5 to 7 are other operators.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kunport_runtime.operators.contract import Case, Contract, reads, writes
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.numerics import wide
from kunport_runtime.operators.state.ragged import BATCHES, SEQUENCES, TOLERANCE, sequences, state_argument

_LOWEST = -1e38  # an exponent below all: the weight of nothing


def reference(
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
    """One token after the other, every exponent relative to the largest."""
    decay, first = -wide(time_decay).exp(), wide(time_first)
    for start, end, slot, initial in sequences(query_start_loc, state_slots, has_initial_state):
        total, weight, largest = wide(state[slot]).clone()
        if not initial:
            total, weight, largest = (
                torch.zeros_like(total),
                torch.zeros_like(weight),
                torch.full_like(largest, _LOWEST),
            )
        for t in range(start, end):
            k, v = wide(key[t]), wide(value[t])
            top = torch.maximum(largest, first + k)
            before, now = torch.exp(largest - top), torch.exp(first + k - top)
            mean = (before * total + now * v) / (before * weight + now)
            out[t] = (wide(receptance[t]).sigmoid() * mean).to(out.dtype)
            top = torch.maximum(largest + decay, k)
            before, now = torch.exp(largest + decay - top), torch.exp(k - top)
            total, weight, largest = before * total + now * v, before * weight + now, top
        state[slot] = torch.stack((total, weight, largest)).to(state.dtype)


def cases(draw: Draw) -> Iterator[Case]:
    """Each kind of batch; states as a prompt leaves them."""
    for batch, channels in zip(BATCHES, (64, 40, 33), strict=True):
        state = draw.normal(batch.slots, 3, channels, dtype=torch.float32)
        state[:, 1] = state[:, 1].abs() + 0.5
        yield Case(
            f"{batch.label}, {channels} channels",
            {
                "out": draw.poison(batch.tokens, channels),
                "receptance": draw.normal(batch.tokens, channels),
                "key": draw.normal(batch.tokens, channels, spare=8),
                "value": draw.normal(batch.tokens, channels),
                "time_decay": draw.normal(channels, scale=0.5),
                "time_first": draw.normal(channels),
                "state": state,
                **batch.arguments(draw),
            },
        )


CONTRACT = Contract(
    name="rwkv",
    arguments=(
        writes("out", "tokens, channels", "the result", like="value"),
        reads("receptance", "tokens, channels", "before its sigmoid", like="value"),
        reads("key", "tokens, channels", "the exponent of each value's weight", like="value"),
        reads("value", "tokens, channels", "of all sequences, one after the other"),
        reads("time_decay", "channels", "the logarithm of what a step takes off an exponent"),
        reads("time_first", "channels", "added to the exponent of the token's own value"),
        state_argument("state", "3, channels", "sum of values, sum of weights, largest exponent"),
        *SEQUENCES,
    ),
    reference=reference,
    cases=cases,
    tolerance=TOLERANCE,
    dtype_of="value",
)
