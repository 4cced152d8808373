"""Linear attention with a constant decay of each head, over prompts and single tokens alike.

``S = exp(decay) * S + k v'`` and ``out = scale * S' q``, with a state S of ``key_dim`` times ``value_dim`` numbers
for each head, float32 within a call and rounded into its own dtype at the end. Qin and others, 2024 (Lightning
Attention, as in MiniMax), https://arxiv.org/abs/2401.04658.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kunport_runtime.operators.contract import Case, Contract, option, reads, writes
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.numerics import wide
from kunport_runtime.operators.state.ragged import BATCHES, SEQUENCES, TOLERANCE, sequences, state_argument


def reference(
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
    """One token after the other."""
    kept = decay.exp().view(-1, 1, 1)
    for start, end, slot, initial in sequences(query_start_loc, state_slots, has_initial_state):
        memory = wide(state[slot]).clone() if initial else torch.zeros_like(wide(state[slot]))
        for t in range(start, end):
            memory = kept * memory + wide(key[t]).unsqueeze(-1) * wide(value[t]).unsqueeze(1)
            out[t] = (scale * (memory * wide(query[t]).unsqueeze(-1)).sum(1)).to(out.dtype)
        state[slot] = memory.to(state.dtype)


def cases(draw: Draw) -> Iterator[Case]:
    """Each kind of batch, keys and values of one and of two sizes, a head that forgets nothing."""
    for batch, (heads, key_dim, value_dim) in zip(BATCHES, ((4, 32, 32), (3, 16, 40), (2, 24, 24)), strict=True):
        decay = -draw.uniform(heads, high=1.0, dtype=torch.float32)
        decay[0] = 0.0
        yield Case(
            f"{batch.label}, {heads} heads of {key_dim} by {value_dim}",
            {
                "out": draw.poison(batch.tokens, heads, value_dim),
                "query": draw.normal(batch.tokens, heads, key_dim, spare=8),
                "key": draw.normal(batch.tokens, heads, key_dim, scale=0.5),
                "value": draw.normal(batch.tokens, heads, value_dim),
                "decay": decay,
                "state": draw.normal(batch.slots, heads, key_dim, value_dim),
                "scale": key_dim**-0.5,
                **batch.arguments(draw),
            },
        )


CONTRACT = Contract(
    name="linear_attention",
    arguments=(
        writes("out", "tokens, heads, value_dim", "the result", like="query"),
        reads("query", "tokens, heads, key_dim", "of all sequences, one after the other"),
        reads("key", "tokens, heads, key_dim", "of each token", like="query"),
        reads("value", "tokens, heads, value_dim", "of each token", like="query"),
        reads("decay", "heads", "the logarithm of what a step keeps", dtypes=("float32",)),
        state_argument("state", "heads, key_dim, value_dim", "of each head"),
        option("scale", float, "a factor of the result"),
        *SEQUENCES,
    ),
    reference=reference,
    cases=cases,
    tolerance=TOLERANCE,
    dtype_of="query",
)
