"""The scan of Mamba 2, over prompts and single tokens alike.

For each head, with a state of ``head_dim`` times ``state_size`` numbers and one decay:

    dt = clamp(softplus(dt + dt_bias), dt_min, dt_max)   softplus only with ``dt_softplus``
    h  = exp(dt * a) * h + dt * x b'
    y  = h c + d * x

Heads share ``b`` and ``c`` in groups: head h has those of group h // (heads / groups). The state is float32 within a
call and rounded into its own dtype at the end. Dao and Gu, 2024, https://arxiv.org/abs/2405.21060.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.nn import functional

from kunport_runtime.operators.contract import Case, Contract, option, reads, writes
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.limit import Limit
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
    dt_bias: torch.Tensor | None,
    state: torch.Tensor,
    dt_softplus: bool,
    dt_min: float,
    dt_max: float,
    query_start_loc: torch.Tensor,
    state_slots: torch.Tensor,
    has_initial_state: torch.Tensor,
) -> None:
    """One token after the other."""
    share = x.shape[1] // b.shape[1]
    steps = wide(dt) if dt_bias is None else wide(dt) + wide(dt_bias)
    steps = (functional.softplus(steps) if dt_softplus else steps).clamp(dt_min, dt_max)
    for start, end, slot, initial in sequences(query_start_loc, state_slots, has_initial_state):
        h = wide(state[slot]).clone() if initial else torch.zeros_like(wide(state[slot]))
        for t in range(start, end):
            step, value = steps[t].view(-1, 1, 1), wide(x[t])
            into, out_of = (wide(each[t]).repeat_interleave(share, dim=0) for each in (b, c))
            h = torch.exp(step * a.view(-1, 1, 1)) * h + step * value.unsqueeze(-1) * into.unsqueeze(1)
            y = (h @ out_of.unsqueeze(-1)).squeeze(-1)
            out[t] = (y if d is None else y + wide(d).unsqueeze(1) * value).to(out.dtype)
        state[slot] = h.to(state.dtype)


def cases(draw: Draw) -> Iterator[Case]:
    """Each kind of batch, groups of heads, with and without what may be left away."""
    forms = ((4, 32, 1, 16, True, 1e9), (6, 16, 3, 24, False, 1e9), (2, 40, 2, 16, True, 0.5))
    for batch, (heads, head_dim, groups, state_size, extras, dt_max) in zip(BATCHES, forms, strict=True):
        tokens = batch.tokens
        yield Case(
            f"{batch.label}, {heads} heads of {head_dim} in {groups} groups, states of {state_size}",
            {
                "out": draw.poison(tokens, heads, head_dim),
                "x": draw.normal(tokens, heads, head_dim),
                "dt": draw.normal(tokens, heads),
                "a": -draw.uniform(heads, low=0.1, high=2.0, dtype=torch.float32),
                "b": draw.normal(tokens, groups, state_size, scale=state_size**-0.5),
                "c": draw.normal(tokens, groups, state_size, spare=8),
                "d": draw.normal(heads) if extras else None,
                "dt_bias": draw.normal(heads) if extras else None,
                "state": draw.normal(batch.slots, heads, head_dim, state_size),
                "dt_softplus": extras,
                "dt_min": 0.0 if extras else 0.25,
                "dt_max": dt_max,
                **batch.arguments(draw),
            },
        )


CONTRACT = Contract(
    name="mamba2_scan",
    arguments=(
        writes("out", "tokens, heads, head_dim", "the result", like="x"),
        reads("x", "tokens, heads, head_dim", "of all sequences, one after the other"),
        reads("dt", "tokens, heads", "the step of each token"),
        reads("a", "heads", "negative: how fast states decay", dtypes=("float32",)),
        reads("b", "tokens, groups, state_size", "what goes into the state"),
        reads("c", "tokens, groups, state_size", "what comes out of it"),
        reads("d", "heads", "what goes past it", optional=True),
        reads("dt_bias", "heads", "added to the step", optional=True),
        state_argument("state", "heads, head_dim, state_size", "of each head"),
        option("dt_softplus", bool, "whether the step goes through a softplus", default=True),
        option("dt_min", float, "the smallest step", default=0.0),
        option("dt_max", float, "the largest step", default=float("inf")),
        *SEQUENCES,
    ),
    reference=reference,
    cases=cases,
    tolerance=TOLERANCE,
    dtype_of="x",
    limits=(Limit("heads", multiple_of="groups", why="each group serves as many heads"),),
)
