"""A product of int8 rows and an int8 matrix with their scales (W8A8).

``out = (x @ weight.T) * x_scale * weight_scale + bias``: the sum is an exact int32, the rest is float32, rounded
once.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kunport_runtime.operators.contract import Case, Contract, reads, writes
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
) -> None:
    """The formula above. Products of int8 are whole numbers below 2^14, whose sums are exact in float64."""
    result = (x.double() @ weight.double().T).float()
    result = result * x_scale.unsqueeze(1) * weight_scale
    out.copy_(result if bias is None else result + wide(bias))


def cases(draw: Draw) -> Iterator[Case]:
    """One row and many, sizes that are multiples of 16 and others, with and without bias."""
    for rows, in_size, out_size, bias in ((1, 64, 96, False), (17, 128, 80, True), (33, 272, 48, True)):
        yield Case(
            f"{rows} rows, {in_size} to {out_size}, {'a' if bias else 'no'} bias",
            {
                "out": draw.poison(rows, out_size),
                "x": draw.integers(rows, in_size, low=-127, high=128, dtype=torch.int8),
                "weight": draw.integers(out_size, in_size, low=-127, high=128, dtype=torch.int8),
                "x_scale": draw.uniform(rows, low=0.01, high=0.02, dtype=torch.float32),
                "weight_scale": draw.uniform(out_size, low=0.001, high=0.002, dtype=torch.float32),
                "bias": draw.normal(out_size) if bias else None,
            },
        )


CONTRACT = Contract(
    name="int8_matmul",
    arguments=(
        writes("out", "rows, out_size", "the products", dtypes=RESULTS),
        reads("x", "rows, in_size", "the rows", dtypes=("int8",)),
        reads("weight", "out_size, in_size", "a row for each output", dtypes=("int8",)),
        reads("x_scale", "rows", "of each row", dtypes=("float32",)),
        reads("weight_scale", "out_size", "of each output", dtypes=("float32",)),
        BIAS,
    ),
    reference=reference,
    cases=cases,
    tolerance=rounded(2, scale=2.0),
    dtype_of="out",
    limits=(Limit("in_size", maximum=1 << 17, why="sums of products of 127 fit 32 bits"),),
)
