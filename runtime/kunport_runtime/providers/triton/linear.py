"""Linear layers: out = x @ weight.T + bias."""

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton.tiles import along, finish, fitted, product, spread


@triton.jit(do_not_specialize=["rows"])
def _linear(
    out, x, weight, bias, rows, out_size, in_size, out_stride, x_stride, weight_stride,
    ROWS: tl.constexpr, OUTPUTS: tl.constexpr, DEPTH: tl.constexpr, BAND: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    row_tile, output_tile = spread(tl.program_id(0), tl.cdiv(rows, ROWS), tl.cdiv(out_size, OUTPUTS), BAND)
    row = row_tile * ROWS + tl.arange(0, ROWS)
    output = output_tile * OUTPUTS + tl.arange(0, OUTPUTS)
    total = tl.zeros([ROWS, OUTPUTS], tl.float32)
    x_rows = along(x, row, rows, x_stride)
    weight_rows = along(weight, output, out_size, weight_stride)
    total = product(x_rows, weight_rows, in_size, total, DEPTH, EVEN)
    finish(out, total, bias, row, rows, output, out_size, out_stride)


def linear(*, out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
    """Out [rows, out_size] of x [rows, in_size], weight [out_size, in_size] and bias [out_size] or None."""
    rows, in_size = x.shape
    out_size = weight.shape[0]
    if not rows:
        return
    tile, launch = fitted("linear", x.dtype, x.device, rows, out_size, in_size)
    _linear[(triton.cdiv(rows, tile["ROWS"]) * triton.cdiv(out_size, tile["OUTPUTS"]),)](
        out, x, weight, bias, rows, out_size, in_size, out.stride(0), x.stride(0), weight.stride(0),
        EVEN=in_size % tile["DEPTH"] == 0, **tile, **launch,
    )  # fmt: skip
