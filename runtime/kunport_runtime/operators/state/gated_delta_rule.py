"""The gated delta rule, over prompts and single tokens alike.

For each head, with a state S of ``key_dim`` times ``value_dim`` numbers:

    q, k = q / |q|, k / |k|                          only with ``normalize``; |x| = sqrt(sum(x^2) + 1e-6)
    S    = exp(decay) * S                            one decay a head (Qwen3-Next), or one for each row of S (Kimi)
    S    = S + k (beta * (v - S' k))'
    out  = scale * S' q

Heads share queries and keys in groups: head h has those of key head h // (heads / key_heads). The state is float32
within a call and rounded into its own dtype at the end. Yang and others, 2024, https://arxiv.org/abs/2412.06464.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kunport_runtime.operators.contract import Case, Contract, option, reads, writes
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.limit import Limit
from kunport_runtime.operators.numerics import wide
from kunport_runtime.operators.state.ragged import BATCHES, SEQUENCES, TOLERANCE, sequences, state_argument


def reference(
    out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    decay: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor,
    scale: float,
    normalize: bool,
    query_start_loc: torch.Tensor,
    state_slots: torch.Tensor,
    has_initial_state: torch.Tensor,
) -> None:
    """One token after the other."""
    share = value.shape[1] // key.shape[1]
    q, k = (wide(each).repeat_interleave(share, dim=1) for each in (query, key))
    if normalize:
        q, k = (each * torch.rsqrt(each.pow(2).sum(-1, keepdim=True) + 1e-6) for each in (q, k))
    kept = decay.exp().unsqueeze(-1)  # [tokens, heads, 1 or key_dim, 1]
    for start, end, slot, initial in sequences(query_start_loc, state_slots, has_initial_state):
        memory = wide(state[slot]).clone() if initial else torch.zeros_like(wide(state[slot]))
        for t in range(start, end):
            memory = kept[t] * memory
            recalled = (memory * k[t].unsqueeze(-1)).sum(1)
            change = wide(beta[t]).unsqueeze(-1) * (wide(value[t]) - recalled)
            memory = memory + k[t].unsqueeze(-1) * change.unsqueeze(1)
            out[t] = (scale * (memory * q[t].unsqueeze(-1)).sum(1)).to(out.dtype)
        state[slot] = memory.to(state.dtype)


def cases(draw: Draw) -> Iterator[Case]:
    """Each kind of batch, both kinds of decay, groups of heads, with and without normalisation."""
    forms = ((4, 2, 32, 16, 1, True), (3, 3, 16, 40, 16, True), (2, 1, 24, 24, 1, False))
    for batch, (heads, key_heads, key_dim, value_dim, decay_dim, normalize) in zip(BATCHES, forms, strict=True):
        tokens, scale = batch.tokens, key_dim**-0.5
        yield Case(
            f"{batch.label}, {heads} heads of {key_dim} by {value_dim}, {decay_dim} decays a head",
            {
                "out": draw.poison(tokens, heads, value_dim),
                "query": draw.normal(tokens, key_heads, key_dim, spare=8),
                "key": draw.normal(tokens, key_heads, key_dim, scale=1.0 if normalize else scale),
                "value": draw.normal(tokens, heads, value_dim),
                "decay": -draw.uniform(tokens, heads, decay_dim, high=2.0, dtype=torch.float32),
                "beta": draw.uniform(tokens, heads),
                "state": draw.normal(batch.slots, heads, key_dim, value_dim),
                "scale": 1.0 if normalize else scale,
                "normalize": normalize,
                **batch.arguments(draw),
            },
        )


CONTRACT = Contract(
    name="gated_delta_rule",
    arguments=(
        writes("out", "tokens, heads, value_dim", "the result", like="query"),
        reads("query", "tokens, key_heads, key_dim", "of all sequences, one after the other"),
        reads("key", "tokens, key_heads, key_dim", "where in the state", like="query"),
        reads("value", "tokens, heads, value_dim", "what is to be there", like="query"),
        reads("decay", "tokens, heads, decay_dim", "the logarithm of what is kept", dtypes=("float32",)),
        reads("beta", "tokens, heads", "how much of the difference is written"),
        state_argument("state", "heads, key_dim, value_dim", "of each head"),
        option("scale", float, "a factor of the result"),
        option("normalize", bool, "whether queries and keys are brought to length one"),
        *SEQUENCES,
    ),
    reference=reference,
    cases=cases,
    tolerance=TOLERANCE,
    dtype_of="query",
    limits=(
        Limit("heads", multiple_of="key_heads", why="each key head serves as many heads"),
        Limit("key_dim", multiple_of="decay_dim", why="one decay, or one a row"),
    ),
)
