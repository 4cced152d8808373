"""Addition to the residual stream, and the RMS norm of the sum, in one pass.

``residual_out = x + residual``, rounded to the dtype of ``x``, and ``out = rms_norm(residual_out)`` of the rounded
sum, as a model computes it that adds first and norms then. Each row is read and written once. ``out`` may be ``x``
and ``residual_out`` may be ``residual``.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kunport_runtime.operators.contract import Case, Contract, reads, writes
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.norms.options import CAST, EPSILON, OFFSET, TOLERANCE, WEIGHT
from kunport_runtime.operators.numerics import scaled_rms


def reference(
    out: torch.Tensor,
    residual_out: torch.Tensor,
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor | None,
    epsilon: float,
    offset: float,
    cast: str,
) -> None:
    """The sum is complete before anything is written: outputs may be inputs."""
    total = x + residual
    residual_out.copy_(total)
    out.copy_(scaled_rms(total, weight, epsilon, offset, cast))


def cases(draw: Draw) -> Iterator[Case]:
    """Each cast; outputs of their own and in place."""
    forms = (("before_weight", 0.0, True), ("after_weight", 1.0, False), ("none", 0.0, True))
    shapes = ((4, 64, 0), (7, 104, 16), (2, 1030, 0))
    for (cast, offset, in_place), (rows, size, spare) in zip(forms, shapes, strict=True):
        x, residual = (draw.normal(rows, size, spare=spare) for _ in range(2))
        yield Case(
            f"{rows} rows of {size}, cast {cast}{', in place' if in_place else ''}",
            {
                "out": x if in_place else draw.poison(rows, size),
                "residual_out": residual if in_place else draw.poison(rows, size, spare=spare),
                "x": x,
                "residual": residual,
                "weight": draw.normal(size),
                "epsilon": 1e-5,
                "offset": offset,
                "cast": cast,
            },
        )


CONTRACT = Contract(
    name="fused_add_rms_norm",
    arguments=(
        writes("out", "rows, size", "the normed sum", like="x", may_be="x"),
        writes("residual_out", "rows, size", "the sum", like="x", may_be="residual"),
        reads("x", "rows, size", "what a layer adds"),
        reads("residual", "rows, size", "the residual stream", like="x"),
        WEIGHT,
        EPSILON,
        OFFSET,
        CAST,
    ),
    reference=reference,
    cases=cases,
    tolerance=TOLERANCE,
    dtype_of="x",
)
