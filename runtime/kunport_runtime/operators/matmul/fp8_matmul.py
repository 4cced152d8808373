"""A product of float8 rows and a float8 matrix with scales of groups.

``in_group`` columns share a scale, in ``x`` each row its own, in ``weight`` every ``out_group`` outputs together:

    out[r, o] = bias[o] + sum over g of x_scale[r, g] * weight_scale[o // out_group, g] * (x[r, g] . weight[o, g])

Sums are float32, rounded once. DeepSeek's blocks are 128 and 128; a scale for each row and output is
``in_group=in_size, out_group=1``. The last group of a side may be smaller. Micikevicius and others, 2022,
https://arxiv.org/abs/2209.05433.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kunport_runtime.operators.contract import FP8, Case, Contract, option, reads, writes
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.limit import Limit
from kunport_runtime.operators.matmul.options import BIAS, RESULTS
from kunport_runtime.operators.numerics import wide
from kunport_runtime.operators.tolerance import rounded


def reference(
    out: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    x_scale: torch.Tensor,
    weight_scale: torch.Tensor,
    bias: torch.Tensor | None,
    in_group: int,
    out_group: int,
) -> None:
    """The formula above, with the scales multiplied out first."""
    columns = torch.arange(x.shape[1], device=x.device) // in_group
    outputs = torch.arange(weight.shape[0], device=x.device) // out_group
    result = (x.float() * x_scale[:, columns]) @ (weight.float() * weight_scale[outputs][:, columns]).T
    out.copy_(result if bias is None else result + wide(bias))


def cases(draw: Draw) -> Iterator[Case]:
    """Whole rows, blocks, blocks that end within a group, and small ones."""
    blocks = ((17, 256, 80, 128, 128, True), (5, 160, 144, 128, 128, False), (3, 256, 96, 64, 32, False))
    forms = ((1, 64, 96, 64, 1, False), *blocks)
    for rows, in_size, out_size, in_group, out_group, bias in forms:
        in_groups, out_groups = -(-in_size // in_group), -(-out_size // out_group)
        yield Case(
            f"{rows} rows, {in_size} to {out_size} in groups of {in_group} and {out_group}",
            {
                "out": draw.poison(rows, out_size),
                "x": draw.normal(rows, in_size, dtype=torch.float8_e4m3fn),
                "weight": draw.normal(out_size, in_size, dtype=torch.float8_e4m3fn),
                "x_scale": draw.uniform(rows, in_groups, low=0.5, high=1.5, dtype=torch.float32),
                "weight_scale": draw.uniform(out_groups, in_groups, high=in_size**-0.5, dtype=torch.float32),
                "bias": draw.normal(out_size) if bias else None,
                "in_group": in_group,
                "out_group": out_group,
            },
        )


CONTRACT = Contract(
    name="fp8_matmul",
    arguments=(
        writes("out", "rows, out_size", "the products", dtypes=RESULTS),
        reads("x", "rows, in_size", "the rows", dtypes=FP8),
        reads("weight", "out_size, in_size", "a row for each output", dtypes=FP8),
        reads("x_scale", "rows, in_groups", "of each group of a row", dtypes=("float32",)),
        reads("weight_scale", "out_groups, in_groups", "of each block", dtypes=("float32",)),
        BIAS,
        option("in_group", int, "columns that share a scale"),
        option("out_group", int, "outputs that share a scale"),
    ),
    reference=reference,
    cases=cases,
    tolerance=rounded(2, scale=4.0),
    dtype_of="out",
    limits=(Limit("in_group", minimum=1), Limit("out_group", minimum=1)),
)
