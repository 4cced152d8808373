"""The outputs of each token's experts, weighted and summed.

    hidden = x @ gate_up_weight[e].T + gate_up_bias[e]            rounded
    hidden = `gated_activation` of hidden                          rounded
    out    = sum over the token's experts of weight * (hidden @ down_weight[e].T + down_bias[e])

Sums are float32, and so is that over experts, rounded once. An id of -1 is an expert of another rank and adds
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kunport_runtime.operators.activations.gated_activation import gated
from kunport_runtime.operators.activations.options import GATED
from kunport_runtime.operators.contract import Case, Contract, reads, writes
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.numerics import wide
from kunport_runtime.operators.tolerance import rounded


def reference(
    out: torch.Tensor,
    x: torch.Tensor,
    gate_up_weight: torch.Tensor,
    down_weight: torch.Tensor,
    weights: torch.Tensor,
    ids: torch.Tensor,
    gate_up_bias: torch.Tensor | None,
    down_bias: torch.Tensor | None,
    activation: str,
    packing: str,
    alpha: float,
    limit: float,
    up_offset: float,
) -> None:
    """One expert after the other, each over its tokens."""
    total = torch.zeros(out.shape, dtype=wide(x).dtype, device=x.device)
    for expert in sorted(set(ids.flatten().tolist())):
        if expert < 0:
            continue
        tokens, choices = (ids == expert).nonzero(as_tuple=True)
        hidden = wide(x[tokens]) @ wide(gate_up_weight[expert]).T
        if gate_up_bias is not None:
            hidden = hidden + wide(gate_up_bias[expert])
        hidden = gated(hidden.to(x.dtype), activation, packing, alpha, limit, up_offset).to(x.dtype)
        result = wide(hidden) @ wide(down_weight[expert]).T
        if down_bias is not None:
            result = result + wide(down_bias[expert])
        total.index_add_(0, tokens, result * weights[tokens, choices].to(result.dtype).unsqueeze(-1))
    out.copy_(total)


def cases(draw: Draw) -> Iterator[Case]:
    """One token and many, an expert that gets all, experts of another rank, gpt-oss's activation with biases."""
    forms = (
        (1, 64, 32, 8, 2, "silu", False, False),
        (33, 96, 40, 6, 3, "gelu_tanh", True, False),
        (7, 64, 48, 4, 2, "silu", False, True),
    )
    for tokens, hidden, size, experts, top_k, activation, elsewhere, gpt_oss in forms:
        ids = torch.stack([draw.permutation(experts, torch.int32)[:top_k] for _ in range(tokens)])
        ids[:, 0] = torch.where(ids[:, 1:].eq(1).any(-1), ids[:, 0], 1)
        if elsewhere:
            ids[ids == 2] = -1
        yield Case(
            f"{tokens} tokens, {top_k} of {experts} experts of {size} in {hidden}, {activation}"
            f"{', some of another rank' if elsewhere else ''}{', with biases and limits' if gpt_oss else ''}",
            {
                "out": draw.poison(tokens, hidden),
                "x": draw.normal(tokens, hidden, spare=8 if elsewhere else 0),
                "gate_up_weight": draw.normal(experts, 2 * size, hidden, scale=hidden**-0.5),
                "down_weight": draw.normal(experts, hidden, size, scale=size**-0.5),
                "weights": draw.uniform(tokens, top_k, dtype=torch.float32),
                "ids": ids,
                "gate_up_bias": draw.normal(experts, 2 * size) if gpt_oss else None,
                "down_bias": draw.normal(experts, hidden) if gpt_oss else None,
                "activation": activation,
                "packing": "interleaved" if gpt_oss else "halves",
                "alpha": 1.702 if gpt_oss else 1.0,
                "limit": 1.5 if gpt_oss else 0.0,
                "up_offset": 1.0 if gpt_oss else 0.0,
            },
        )


CONTRACT = Contract(
    name="fused_experts",
    arguments=(
        writes("out", "tokens, hidden", "the sum of the experts' outputs", like="x"),
        reads("x", "tokens, hidden", "what experts are given"),
        reads("gate_up_weight", "experts, 2 * size, hidden", "gate and up of each expert, packed", like="x"),
        reads("down_weight", "experts, hidden, size", "the way back", like="x"),
        reads("weights", "tokens, top_k", "of each expert's output", dtypes=("float32",)),
        reads("ids", "tokens, top_k", "of the experts; -1: not of this rank", dtypes=("int32",)),
        reads("gate_up_bias", "experts, 2 * size", "added before the activation", optional=True),
        reads("down_bias", "experts, hidden", "added before the weights", optional=True),
        *GATED.values(),
    ),
    reference=reference,
    cases=cases,
    # The hidden values are rounded twice and the result once on each side; errors of many hidden values average out.
    tolerance=rounded(6, scale=2.0),
    dtype_of="x",
)
