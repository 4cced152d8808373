"""Rows to 8 bits, with a scale for every group of a row."""

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton import tuning
from kunport_runtime.providers.triton.cache_write import largest
from kunport_runtime.providers.triton.rows import DEFAULTS, constants, load

# Adding and taking this away again rounds a float32 below 2^22 to the nearest whole number, ties to even.
WHOLE = tl.constexpr(12582912.0)  # 1.5 * 2^23


@triton.jit(do_not_specialize=["rows"])
def _quantize_rows(
    out, scale, x, greatest, rows, out_stride, scale_stride, x_stride, GROUPS: tl.constexpr,
    SIZE: tl.constexpr, SIZE_PAD: tl.constexpr, ROWS: tl.constexpr, EXACT: tl.constexpr, INT8: tl.constexpr,
):  # fmt: skip
    """A row of this kernel is a group of SIZE columns, of which a row of x has GROUPS; `rows` counts groups."""
    number = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    row = (number // GROUPS).to(tl.int64)
    within = tl.arange(0, SIZE_PAD)[None, :]
    column = (number % GROUPS) * SIZE + within
    inside = (number < rows) & (within < SIZE)
    values = load(x + row * x_stride + column, inside, EXACT)
    unit = tl.div_rn(tl.max(tl.abs(values), 1, keep_dims=True), greatest)
    unit = tl.where(unit == 0.0, 1.0, unit)
    quotient = tl.div_rn(values, tl.broadcast_to(unit, values.shape))
    if INT8:
        quotient = (quotient + WHOLE) - WHOLE
    quotient = tl.minimum(tl.maximum(quotient, -greatest), greatest)
    tl.store(out + row * out_stride + column, quotient.to(out.dtype.element_ty), mask=inside)
    tl.store(scale + row * scale_stride + number % GROUPS, unit, mask=number < rows)


def quantize_rows(*, out: torch.Tensor, scale: torch.Tensor, x: torch.Tensor, group: int) -> None:
    """Out [rows, size] int8 or float8 and scale [rows, size / group] float32 of x [rows, size]: x / scale, to nearest.

    The scale is the largest magnitude of a group divided by the dtype's, 1 where all are zero.
    """
    rows, size = x.shape
    if not rows or not size:
        return
    groups = size // group
    config = tuning.lookup("quantize_rows", x.dtype, x.device, DEFAULTS, rows=rows, size=group)
    shape = constants(rows * groups, group, config)
    int8 = out.dtype == torch.int8
    _quantize_rows[(triton.cdiv(rows * groups, shape["ROWS"]),)](
        out, scale, x, 127.0 if int8 else largest(out.dtype), rows * groups,
        out.stride(0), scale.stride(0), x.stride(0), GROUPS=groups, INT8=int8, num_warps=config["warps"], **shape,
    )  # fmt: skip
