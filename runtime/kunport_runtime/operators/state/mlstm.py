"""The matrix memory of xLSTM, over prompts and single tokens alike.

For each head, with a matrix C, a vector n and an exponent m, to which both are relative:

    m' = max(logsigmoid(f) + m, i)
    C  = exp(logsigmoid(f) + m - m') * C + exp(i - m') * k v'
    n  = exp(logsigmoid(f) + m - m') * n + exp(i - m') * k
    out = scale * C' q / (max(scale * |n . q|, exp(-m')) + epsilon)

A sequence without a state starts with zeros. States are float32 within a call and rounded into their own dtype at the
end. Beck and others, 2024, https://arxiv.org/abs/2405.04517.
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
    """One token after the other."""
    forget = functional.logsigmoid(wide(forget_gate))
    states = (memory, normalizer, maximum)
    for start, end, slot, initial in sequences(query_start_loc, state_slots, has_initial_state):
        c, n, m = (wide(each[slot]) * (1.0 if initial else 0.0) for each in states)
        for t in range(start, end):
            q, k, i = wide(query[t]), wide(key[t]), wide(input_gate[t])
            top = torch.maximum(forget[t] + m, i)
            kept, entering = torch.exp(forget[t] + m - top).unsqueeze(-1), torch.exp(i - top).unsqueeze(-1)
            c = kept.unsqueeze(-1) * c + (entering * k).unsqueeze(-1) * wide(value[t]).unsqueeze(1)
            n = kept * n + entering * k
            m = top
            size = torch.maximum(scale * (n * q).sum(-1).abs(), torch.exp(-m)) + epsilon
            out[t] = (scale * (c * q.unsqueeze(-1)).sum(1) / size.unsqueeze(-1)).to(out.dtype)
        for each, final in zip(states, (c, n, m), strict=True):
            each[slot] = final.to(each.dtype)


def cases(draw: Draw) -> Iterator[Case]:
    """Each kind of batch, keys and values of one and of two sizes."""
    for batch, (heads, key_dim, value_dim) in zip(BATCHES, ((4, 32, 32), (3, 16, 40), (2, 24, 24)), strict=True):
        yield Case(
            f"{batch.label}, {heads} heads of {key_dim} by {value_dim}",
            {
                "out": draw.poison(batch.tokens, heads, value_dim),
                "query": draw.normal(batch.tokens, heads, key_dim, spare=8),
                "key": draw.normal(batch.tokens, heads, key_dim),
                "value": draw.normal(batch.tokens, heads, value_dim),
                "input_gate": draw.normal(batch.tokens, heads),
                "forget_gate": draw.normal(batch.tokens, heads, scale=2.0),
                "memory": draw.normal(batch.slots, heads, key_dim, value_dim, dtype=torch.float32),
                "normalizer": draw.normal(batch.slots, heads, key_dim, dtype=torch.float32),
                "maximum": draw.normal(batch.slots, heads, dtype=torch.float32),
                "scale": key_dim**-0.5,
                "epsilon": 1e-6,
                **batch.arguments(draw),
            },
        )


CONTRACT = Contract(
    name="mlstm",
    arguments=(
        writes("out", "tokens, heads, value_dim", "the result", like="query"),
        reads("query", "tokens, heads, key_dim", "of all sequences, one after the other"),
        reads("key", "tokens, heads, key_dim", "of each token", like="query"),
        reads("value", "tokens, heads, value_dim", "of each token", like="query"),
        reads("input_gate", "tokens, heads", "the exponent of what enters"),
        reads("forget_gate", "tokens, heads", "before its sigmoid"),
        state_argument("memory", "heads, key_dim, value_dim", "C of each head"),
        state_argument("normalizer", "heads, key_dim", "n of each head"),
        state_argument("maximum", "heads", "m of each head"),
        option("scale", float, "a factor of the queries"),
        option("epsilon", float, "added to the denominator"),
        *SEQUENCES,
    ),
    reference=reference,
    cases=cases,
    tolerance=TOLERANCE,
    dtype_of="query",
)
