"""LayerNorm: y = (x - mean) / sqrt(variance + epsilon) * weight + bias, rows whole in registers."""

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton import tuning
from kunport_runtime.providers.triton.rows import DEFAULTS, constants, load, store


@triton.jit
def _layer_norm(
    out, x, weight, bias, epsilon, rows, out_stride, x_stride,
    SIZE: tl.constexpr, SIZE_PAD: tl.constexpr, ROWS: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    column = tl.arange(0, SIZE_PAD)[None, :]
    inside = (row < rows) & (column < SIZE)
    values = load(x + row * x_stride + column, inside, EXACT)
    scale = None  # both on their way before the sums are waited for
    shift = None
    if weight is not None:
        scale = load(weight + column, column < SIZE, EXACT)
    if bias is not None:
        shift = load(bias + column, column < SIZE, EXACT)
    mean = tl.sum(values, 1, keep_dims=True) / SIZE
    centred = tl.where(column < SIZE, values - mean, 0.0)
    y = centred * tl.rsqrt(tl.sum(centred * centred, 1, keep_dims=True) / SIZE + epsilon)
    if scale is not None:
        y = y * scale
    if shift is not None:
        y = y + shift
    store(out + row * out_stride + column, y, inside, EXACT)


def layer_norm(
    *, out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, epsilon: float
) -> None:
    """LayerNorm of the rows of x [rows, size] into out (which may be x); float32 inside, rounded once."""
    rows, size = x.shape
    if not rows:
        return
    config = tuning.lookup("layer_norm", x.dtype, x.device, DEFAULTS, rows=rows, size=size)
    shape = constants(rows, size, config)
    _layer_norm[(triton.cdiv(rows, shape["ROWS"]),)](
        out, x, weight, bias, epsilon, rows, out.stride(0), x.stride(0), num_warps=config["warps"], **shape
    )
