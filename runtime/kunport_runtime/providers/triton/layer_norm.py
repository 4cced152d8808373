"""LayerNorm: y = (x - mean) / sqrt(variance + epsilon) * weight + bias, rows whole in registers."""

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton import tuning

DEFAULTS: tuning.Config = {"elements": 4096, "warps": 4}


@triton.jit
def _layer_norm(
    out, x, weight, bias, epsilon, rows, out_stride, x_stride,
    SIZE: tl.constexpr, SIZE_PAD: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    column = tl.arange(0, SIZE_PAD)[None, :]
    inside = (row < rows) & (column < SIZE)
    values = tl.load(x + row * x_stride + column, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(values, 1, keep_dims=True) / SIZE
    centred = tl.where(column < SIZE, values - mean, 0.0)
    y = centred * tl.rsqrt(tl.sum(centred * centred, 1, keep_dims=True) / SIZE + epsilon)
    if weight is not None:
        y = y * tl.load(weight + column, mask=column < SIZE, other=0.0).to(tl.float32)
    if bias is not None:
        y = y + tl.load(bias + column, mask=column < SIZE, other=0.0).to(tl.float32)
    tl.store(out + row * out_stride + column, y.to(out.dtype.element_ty), mask=inside)


def layer_norm(
    *, out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, epsilon: float
) -> None:
    """LayerNorm of the rows of x [rows, size] into out (which may be x); float32 inside, rounded once."""
    rows, size = x.shape
    if not rows:
        return
    config = tuning.lookup("layer_norm", x.dtype, x.device, DEFAULTS, rows=rows, size=size)
    size_pad = triton.next_power_of_2(size)
    block = max(1, triton.next_power_of_2(config["elements"]) // size_pad)
    _layer_norm[(triton.cdiv(rows, block),)](
        out, x, weight, bias, epsilon, rows, out.stride(0), x.stride(0),
        SIZE=size, SIZE_PAD=size_pad, ROWS=block, num_warps=config["warps"],
    )  # fmt: skip
