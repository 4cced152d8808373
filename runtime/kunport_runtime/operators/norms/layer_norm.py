"""Layer norm of rows.

``(x - mean) / sqrt(variance + epsilon) * weight + bias``, the variance that of the whole row (not the sample's), all
in float32 and rounded once. Ba and others, 2016, https://arxiv.org/abs/1607.06450. ``out`` may be ``x``.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kunport_runtime.operators.contract import Case, Contract, reads, writes
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.norms.options import EPSILON, WEIGHT
from kunport_runtime.operators.numerics import wide
from kunport_runtime.operators.tolerance import rounded


def reference(
    out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, epsilon: float
) -> None:
    """The formula above."""
    x = wide(x)
    centred = x - x.mean(-1, keepdim=True)
    result = centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + epsilon)
    if weight is not None:
        result = result * wide(weight)
    if bias is not None:
        result = result + wide(bias)
    out.copy_(result)


def cases(draw: Draw) -> Iterator[Case]:
    """With and without weight and bias; rows far from 0, where the mean cancels."""
    for rows, size, spare, weight, bias in (
        (3, 64, 0, True, True),
        (9, 200, 8, True, False),
        (1, 1025, 0, False, False),
    ):
        yield Case(
            f"{rows} rows of {size}, {'a' if weight else 'no'} weight, {'a' if bias else 'no'} bias",
            {
                "out": draw.poison(rows, size, spare=spare),
                "x": draw.uniform(rows, size, low=3.0, high=5.0, spare=spare),
                "weight": draw.normal(size) if weight else None,
                "bias": draw.normal(size) if bias else None,
                "epsilon": 1e-5,
            },
        )


CONTRACT = Contract(
    name="layer_norm",
    arguments=(
        writes("out", "rows, size", "the normed rows", like="x", may_be="x"),
        reads("x", "rows, size", "what is normed"),
        WEIGHT,
        reads("bias", "size", "added to each element", optional=True),
        EPSILON,
    ),
    reference=reference,
    cases=cases,
    tolerance=rounded(2, scale=4.0),
    dtype_of="x",
)
