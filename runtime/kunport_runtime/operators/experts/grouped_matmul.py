"""Products of rows that are sorted by expert with the matrix of each row's expert.

The rows ``group_starts[e]`` up to ``group_starts[e + 1]`` belong to expert e: ``out = x @ weight[e].T``, with sums in
float32. An expert may have no rows. Rows from ``group_starts[-1]`` on stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kunport_runtime.operators.contract import Case, Contract, reads, writes
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.matmul.options import product_tolerance
from kunport_runtime.operators.numerics import wide


def reference(out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, group_starts: torch.Tensor) -> None:
    """One expert after the other."""
    starts = group_starts.tolist()
    for start, end, matrix in zip(starts[:-1], starts[1:], weight, strict=True):
        out[start:end] = (wide(x[start:end]) @ wide(matrix).T).to(out.dtype)


def cases(draw: Draw) -> Iterator[Case]:
    """Experts with many rows, with one and with none; rows of nobody at the end; odd sizes."""
    forms = (((3, 0, 17, 1), 64, 96, 0, 0), ((40, 25), 80, 48, 3, 8), ((0, 0, 1), 130, 33, 1, 0))
    for counts, in_size, out_size, spare_rows, spare in forms:
        starts = [sum(counts[:index]) for index in range(len(counts) + 1)]
        yield Case(
            f"rows {counts} of {in_size}, {out_size} outputs, {spare_rows} rows of nobody",
            {
                "out": draw.poison(starts[-1] + spare_rows, out_size),
                "x": draw.normal(starts[-1] + spare_rows, in_size, spare=spare),
                "weight": draw.normal(len(counts), out_size, in_size, scale=in_size**-0.5),
                "group_starts": draw.values(starts, torch.int32),
            },
        )


CONTRACT = Contract(
    name="grouped_matmul",
    arguments=(
        writes("out", "rows, out_size", "the products", like="x"),
        reads("x", "rows, in_size", "sorted by expert"),
        reads("weight", "experts, out_size, in_size", "a matrix of each expert", like="x"),
        reads("group_starts", "experts + 1", "the first row of each expert, and the end", dtypes=("int32",)),
    ),
    reference=reference,
    cases=cases,
    tolerance=product_tolerance(),
    dtype_of="x",
)
