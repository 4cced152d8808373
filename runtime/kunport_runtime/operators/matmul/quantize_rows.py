"""Quantises rows to 8 bits, with a scale for every group of a row.

``scale = max|x| / largest``, where the largest number is 127 in int8 and the largest finite one in float8, and ``out
= x / scale``, rounded to nearest, ties to even. A group of zeros has the scale 1. Vendors that keep maxima instead of
scales have ``127 * scale``.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kunport_runtime.operators.contract import FP8, Case, Contract, option, reads, writes
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.limit import Limit
from kunport_runtime.operators.numerics import to_fp8, wide
from kunport_runtime.operators.tolerance import Tolerance


def reference(out: torch.Tensor, scale: torch.Tensor, x: torch.Tensor, group: int) -> None:
    """The formula above."""
    groups = wide(x).reshape(len(x), -1, group)
    largest = 127.0 if out.dtype == torch.int8 else torch.finfo(out.dtype).max
    scales = groups.abs().amax(-1) / largest
    scales = torch.where(scales == 0, 1.0, scales)
    scale.copy_(scales)
    quotient = (groups / scales.unsqueeze(-1)).view(x.shape)
    out.copy_(quotient.round().to(torch.int8) if out.dtype == torch.int8 else to_fp8(quotient, out.dtype))


def cases(draw: Draw) -> Iterator[Case]:
    """Whole rows and groups, both kinds of 8 bits, a row of zeros."""
    forms = ((5, 64, 64, torch.int8), (3, 256, 128, torch.float8_e4m3fn), (9, 80, 16, torch.float8_e5m2))
    for rows, size, group, dtype in forms:
        x = draw.normal(rows, size)
        x[1] = 0
        yield Case(
            f"{rows} rows of {size} in groups of {group}, {dtype}",
            {
                "out": draw.poison(rows, size, dtype=dtype),
                "scale": draw.poison(rows, size // group, dtype=torch.float32),
                "x": x,
                "group": group,
            },
        )


CONTRACT = Contract(
    name="quantize_rows",
    arguments=(
        writes("out", "rows, size", "the quotients", dtypes=("int8", *FP8)),
        writes("scale", "rows, groups", "of each group", dtypes=("float32",)),
        reads("x", "rows, size", "what is quantised"),
        option("group", int, "elements that share a scale"),
    ),
    reference=reference,
    cases=cases,
    tolerance={
        dtype: Tolerance(
            0.0, 1e-6, "scales are one division; quotients are the nearest number, or one step beside a tie"
        )
        for dtype in ("float32", "float16", "bfloat16")
    },
    dtype_of="x",
    limits=(Limit("size", multiple_of="group"),),
)
