"""Products of rows that are sorted by expert with the matrix of each row's expert, in one launch."""

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton.tiles import along, finish, fitted, owner, product, spread


@triton.jit(do_not_specialize=["row_tiles"])
def _grouped(
    out, x, weight, starts, row_tiles, experts, out_size, in_size, out_stride, x_stride, expert_stride, weight_stride,
    ROWS: tl.constexpr, OUTPUTS: tl.constexpr, DEPTH: tl.constexpr, BAND: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """A tile of rows is one expert's."""
    row_tile, output_tile = spread(tl.program_id(0), row_tiles, tl.cdiv(out_size, OUTPUTS), BAND)
    expert, first, end, begin = owner(starts, experts, row_tile, ROWS, 1)
    if (begin < first) | (begin >= end):
        return
    row = begin + tl.arange(0, ROWS)
    output = output_tile * OUTPUTS + tl.arange(0, OUTPUTS)
    x_rows = along(x, row, end, x_stride)
    weight_rows = along(weight + expert.to(tl.int64) * expert_stride, output, out_size, weight_stride)
    total = product(x_rows, weight_rows, in_size, tl.zeros([ROWS, OUTPUTS], tl.float32), DEPTH, EVEN)
    finish(out, total, None, row, end, output, out_size, out_stride)


def grouped_matmul(*, out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, group_starts: torch.Tensor) -> None:
    """Out [rows, out_size] of x [rows, in_size] and weight [experts, out_size, in_size].

    group_starts [experts + 1] int32: where each expert's rows start; rows of nobody stay as they are.
    """
    rows, in_size = x.shape
    experts, out_size, _ = weight.shape
    if not rows:
        return
    tile, launch = fitted("grouped_matmul", x.dtype, x.device, triton.cdiv(rows, experts), out_size, in_size)
    row_tiles = rows // tile["ROWS"] + experts
    _grouped[(row_tiles * triton.cdiv(out_size, tile["OUTPUTS"]),)](
        out, x, weight, group_starts, row_tiles, experts, out_size, in_size,
        out.stride(0), x.stride(0), *weight.stride()[:2], EVEN=in_size % tile["DEPTH"] == 0, **tile, **launch,
    )  # fmt: skip
