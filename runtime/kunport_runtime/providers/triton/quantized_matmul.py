"""Products of 8-bit rows and matrices with their scales: float8 in groups, int8 by rows and outputs."""

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton.tiles import along, finish, fitted, product, spread, step


@triton.jit(do_not_specialize=["rows"])
def _fp8_matmul(
    out, x, weight, x_scale, weight_scale, bias, rows, out_size, in_size, in_group, out_group, steps, group_steps,
    out_stride, x_stride, weight_stride, x_scale_stride, weight_scale_stride,
    ROWS: tl.constexpr, OUTPUTS: tl.constexpr, DEPTH: tl.constexpr, BAND: tl.constexpr, EVEN: tl.constexpr,
    ONE: tl.constexpr, SHARED: tl.constexpr, DIRECT: tl.constexpr,
):  # fmt: skip
    """A step stays within a group, `group_steps` of them make one; ONE: there is one group, scaled at the end.

    SHARED: the outputs of a tile are in one group, so that a step's scales are one for each row.
    DIRECT: float8 goes to the matrix unit as it is. Else it goes as float16, which holds every float8.
    """
    row_tile, output_tile = spread(tl.program_id(0), tl.cdiv(rows, ROWS), tl.cdiv(out_size, OUTPUTS), BAND)
    row = row_tile * ROWS + tl.arange(0, ROWS)
    output = output_tile * OUTPUTS + tl.arange(0, OUTPUTS)
    x_rows = along(x, row, rows, x_stride)
    weight_rows = along(weight, output, out_size, weight_stride)
    x_scales = along(x_scale, row, rows, x_scale_stride)
    weight_scales = weight_scale + (tl.minimum(output, out_size - 1) // out_group).to(tl.int64) * weight_scale_stride
    total = tl.zeros([ROWS, OUTPUTS], tl.float32)
    for number in range(steps):
        group = number // group_steps
        column = group * in_group + number % group_steps * DEPTH + tl.arange(0, DEPTH)
        a, b = step(x_rows, weight_rows, column, tl.minimum((group + 1) * in_group, in_size), EVEN)
        if not DIRECT:
            a = a.to(tl.float16)
            b = b.to(tl.float16)
        if ONE:
            total = tl.dot(a, b, total)
        elif SHARED:
            shared = tl.load(weight_scale + output_tile * OUTPUTS // out_group * weight_scale_stride + group)
            total += tl.dot(a, b) * (tl.load(x_scales + group) * shared)[:, None]
        else:
            part = tl.dot(a, b)
            total += part * (tl.load(x_scales + group)[:, None] * tl.load(weight_scales + group)[None, :])
    if ONE:
        total *= tl.load(x_scales)[:, None] * tl.load(weight_scales)[None, :]
    finish(out, total, bias, row, rows, output, out_size, out_stride)


def fp8_matmul(
    *,
    out: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    x_scale: torch.Tensor,
    weight_scale: torch.Tensor,
    bias: torch.Tensor | None,
    in_group: int,
    out_group: int,
) -> None:
    """Out [rows, out_size] of float8 x [rows, in_size] and weight [out_size, in_size], bias [out_size] or None.

    x_scale [rows, in_groups] and weight_scale [out_groups, in_groups] float32, of groups of in_group columns and
    out_group outputs. Matrix units of Hopper keep some 14 bits of a sum of float8: enough for results in bfloat16,
    whose products alone are of float8; for others they are of float16.
    """
    rows, in_size = x.shape
    out_size = weight.shape[0]
    if not rows:
        return
    group = min(in_group, in_size)
    # With scales in the loop a second sum takes registers: other tiles are best.
    tuned = "fp8_matmul" if group == in_size else "fp8_matmul_grouped"
    tile, launch = fitted(tuned, x.dtype, x.device, rows, out_size, in_size)
    groups, group_steps = triton.cdiv(in_size, group), triton.cdiv(group, tile["DEPTH"])
    _fp8_matmul[(triton.cdiv(rows, tile["ROWS"]) * triton.cdiv(out_size, tile["OUTPUTS"]),)](
        out, x, weight, x_scale, weight_scale, bias, rows, out_size, in_size, group, out_group,
        groups * group_steps, group_steps,
        out.stride(0), x.stride(0), weight.stride(0), x_scale.stride(0), weight_scale.stride(0),
        EVEN=group % tile["DEPTH"] == 0 and in_size % group == 0, ONE=groups == 1,
        SHARED=out_group % tile["OUTPUTS"] == 0, DIRECT=out.dtype == torch.bfloat16 and x.dtype == weight.dtype,
        **tile, **launch,
    )  # fmt: skip


@triton.jit(do_not_specialize=["rows"])
def _int8_matmul(
    out, x, weight, x_scale, weight_scale, bias, rows, out_size, in_size, out_stride, x_stride, weight_stride,
    ROWS: tl.constexpr, OUTPUTS: tl.constexpr, DEPTH: tl.constexpr, BAND: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    row_tile, output_tile = spread(tl.program_id(0), tl.cdiv(rows, ROWS), tl.cdiv(out_size, OUTPUTS), BAND)
    row = row_tile * ROWS + tl.arange(0, ROWS)
    output = output_tile * OUTPUTS + tl.arange(0, OUTPUTS)
    x_rows = along(x, row, rows, x_stride)
    weight_rows = along(weight, output, out_size, weight_stride)
    whole = product(x_rows, weight_rows, in_size, tl.zeros([ROWS, OUTPUTS], tl.int32), DEPTH, EVEN)
    total = whole.to(tl.float32) * tl.load(x_scale + row, mask=row < rows, other=0.0)[:, None]
    total *= tl.load(weight_scale + output, mask=output < out_size, other=0.0)[None, :]
    finish(out, total, bias, row, rows, output, out_size, out_stride)


def int8_matmul(
    *,
    out: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    x_scale: torch.Tensor,
    weight_scale: torch.Tensor,
    bias: torch.Tensor | None,
) -> None:
    """Out [rows, out_size] of int8 x [rows, in_size] and weight [out_size, in_size], bias [out_size] or None.

    x_scale [rows], weight_scale [out_size] float32. The sum is an exact int32.
    """
    rows, in_size = x.shape
    out_size = weight.shape[0]
    if not rows:
        return
    tile, launch = fitted("int8_matmul", x.dtype, x.device, rows, out_size, in_size)
    _int8_matmul[(triton.cdiv(rows, tile["ROWS"]) * triton.cdiv(out_size, tile["OUTPUTS"]),)](
        out, x, weight, x_scale, weight_scale, bias, rows, out_size, in_size,
        out.stride(0), x.stride(0), weight.stride(0), EVEN=in_size % tile["DEPTH"] == 0, **tile, **launch,
    )  # fmt: skip
