"""RMS norm of rows.

``y = x / sqrt(mean(x^2) + epsilon)``, then ``y * (weight + offset)``. Models differ in where they return to their own
dtype, which is equal in float32 and differs in the last bits of bfloat16:

- ``cast="before_weight"``: y is computed in float32 and rounded, and the product rounded again (Llama);
- ``cast="after_weight"``: all in float32, and the product rounded once (OLMo 2; Gemma with ``offset=1``);
- ``cast="none"``: every step in the dtype of ``x``, but for the sum of squares, which may be in float32.

Zhang and Sennrich, 2019, https://arxiv.org/abs/1910.07467. ``out`` may be ``x``.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kunport_runtime.operators.contract import Case, Contract, reads, writes
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.norms.options import CAST, EPSILON, OFFSET, TOLERANCE, WEIGHT
from kunport_runtime.operators.numerics import scaled_rms


def reference(
    out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor | None, epsilon: float, offset: float, cast: str
) -> None:
    """The formula above, step by step."""
    out.copy_(scaled_rms(x, weight, epsilon, offset, cast))


def cases(draw: Draw) -> Iterator[Case]:
    """The casts, with and without weight and offset, over widths that are no power of two, few and many rows."""
    forms = (
        ("before_weight", 0.0, draw.dtype),
        ("after_weight", 1.0, torch.float32),
        ("none", 0.0, draw.dtype),
        ("before_weight", 1.0, draw.dtype),
        ("after_weight", 0.0, None),
    )
    for (cast, offset, weight), (rows, size, spare) in zip(
        forms, ((3, 64, 0), (5, 96, 8), (1, 257, 0), (33, 80, 24), (2, 4100, 0)), strict=True
    ):
        yield Case(
            f"{rows} rows of {size}, cast {cast}, offset {offset:g}",
            {
                "out": draw.poison(rows, size, spare=spare),
                "x": draw.normal(rows, size, scale=2.0, spare=spare),
                "weight": None if weight is None else draw.normal(size, dtype=weight),
                "epsilon": 1e-6,
                "offset": offset,
                "cast": cast,
            },
        )


CONTRACT = Contract(
    name="rms_norm",
    arguments=(
        writes("out", "rows, size", "the normed rows", like="x", may_be="x"),
        reads("x", "rows, size", "what is normed"),
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
