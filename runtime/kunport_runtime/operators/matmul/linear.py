"""A linear layer: ``out = x @ weight.T + bias``, with sums in float32, rounded once."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kunport_runtime.operators.contract import Case, Contract, reads, writes
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.matmul.options import BIAS, product_tolerance
from kunport_runtime.operators.numerics import wide


def reference(out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
    """The formula above; torch's own product sums in float32 as well, and needs no copy of the weight."""
    if x.dtype == out.dtype and (bias is None or bias.dtype == x.dtype):
        whole = out if out.is_contiguous() else None
        product = torch.mm(x, weight.T, out=whole) if bias is None else torch.addmm(bias, x, weight.T, out=whole)
        if whole is None:
            out.copy_(product)
        return
    result = wide(x) @ wide(weight).T
    out.copy_(result if bias is None else result + wide(bias))


def cases(draw: Draw) -> Iterator[Case]:
    """One row and many, odd sizes, slices, with and without bias."""
    for rows, in_size, out_size, spare, bias in ((1, 64, 96, 0, False), (17, 96, 80, 8, True), (65, 130, 33, 0, True)):
        yield Case(
            f"{rows} rows, {in_size} to {out_size}, {'a' if bias else 'no'} bias",
            {
                "out": draw.poison(rows, out_size, spare=spare),
                "x": draw.normal(rows, in_size, spare=spare),
                "weight": draw.normal(out_size, in_size, scale=in_size**-0.5),
                "bias": draw.normal(out_size) if bias else None,
            },
        )


CONTRACT = Contract(
    name="linear",
    arguments=(
        writes("out", "rows, out_size", "the products", like="x"),
        reads("x", "rows, in_size", "the rows"),
        reads("weight", "out_size, in_size", "a row for each output", like="x"),
        BIAS,
    ),
    reference=reference,
    cases=cases,
    tolerance=product_tolerance(),
    dtype_of="x",
)
