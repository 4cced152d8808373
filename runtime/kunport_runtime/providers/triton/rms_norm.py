"""RMSNorm in its three cast orders, alone or after the addition of a residual: y = x / sqrt(mean(x^2) + epsilon).

(Zhang and Sennrich 2019, "Root Mean Square Layer Normalization".) Bytes bound it: each row is read and written once,
so a program holds whole rows in registers; several short rows make one program.
"""

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton import tuning
from kunport_runtime.providers.triton.rows import DEFAULTS, constants, load, store


@triton.jit
def normalize(
    x, weight, epsilon, offset, DTYPE: tl.constexpr, SIZE: tl.constexpr, CAST: tl.constexpr, AXIS: tl.constexpr
):
    """RMSNorm of x float32 along AXIS, zeros beyond SIZE elements; weight float32 or None; result not yet rounded.

    DTYPE: of the tensor that x was. CAST: "before_weight": rounded to it before the product with weight + offset;
    "after_weight": not rounded at all; "none": after every step.
    """
    if CAST == "none":
        mean = (tl.sum((x * x).to(DTYPE).to(tl.float32), AXIS, keep_dims=True) / SIZE).to(DTYPE).to(tl.float32)
        root = tl.rsqrt((mean + epsilon).to(DTYPE).to(tl.float32)).to(DTYPE).to(tl.float32)
    else:
        root = tl.rsqrt(tl.sum(x * x, AXIS, keep_dims=True) / SIZE + epsilon)
    y = x * root
    if CAST != "after_weight":
        y = y.to(DTYPE).to(tl.float32)
    if weight is not None:
        scale = weight + offset
        if CAST == "none":
            scale = scale.to(DTYPE).to(tl.float32)
        y = y * scale
    return y


@triton.jit
def _rms_norm(
    out, residual_out, x, residual, weight, epsilon, offset, rows,
    out_stride, residual_out_stride, x_stride, residual_stride,
    SIZE: tl.constexpr, SIZE_PAD: tl.constexpr, ROWS: tl.constexpr, EXACT: tl.constexpr, CAST: tl.constexpr,
):  # fmt: skip
    """ROWS rows a program; residual None: no addition."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    column = tl.arange(0, SIZE_PAD)[None, :]
    inside = (row < rows) & (column < SIZE)
    values = load(x + row * x_stride + column, inside, EXACT)
    if residual is not None:
        values += load(residual + row * residual_stride + column, inside, EXACT)
        rounded = values.to(x.dtype.element_ty)
        store(residual_out + row * residual_out_stride + column, rounded, inside, EXACT)
        values = rounded.to(tl.float32)
    scale = None
    if weight is not None:
        scale = load(weight + column, column < SIZE, EXACT)
    y = normalize(values, scale, epsilon, offset, x.dtype.element_ty, SIZE, CAST, 1)
    store(out + row * out_stride + column, y, inside, EXACT)


def rms_norm(
    *,
    out: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    epsilon: float,
    offset: float = 0.0,
    cast: str = "before_weight",
) -> None:
    """RMSNorm of the rows of x [rows, size] into out (which may be x), times weight [size] + offset.

    cast: when float32 is rounded to x's dtype: "before_weight" (Llama), "after_weight" (Gemma), or "none" (nothing in
    float32 but the sum).
    """
    _launch("rms_norm", out, None, x, None, weight, epsilon, offset, cast)


def fused_add_rms_norm(
    *,
    out: torch.Tensor,
    residual_out: torch.Tensor,
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor | None,
    epsilon: float,
    offset: float = 0.0,
    cast: str = "before_weight",
) -> None:
    """residual_out = x + residual, rounded; out = `rms_norm` of it. out may be x, and residual_out residual."""
    _launch("fused_add_rms_norm", out, residual_out, x, residual, weight, epsilon, offset, cast)


def _launch(
    operator: str,
    out: torch.Tensor,
    residual_out: torch.Tensor | None,
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor | None,
    epsilon: float,
    offset: float,
    cast: str,
) -> None:
    rows, size = x.shape
    if not rows:
        return
    config = tuning.lookup(operator, x.dtype, x.device, DEFAULTS, rows=rows, size=size)
    shape = constants(rows, size, config)
    _rms_norm[(triton.cdiv(rows, shape["ROWS"]),)](
        out, residual_out, x, residual, weight, epsilon, offset, rows,
        out.stride(0), residual_out.stride(0) if residual_out is not None else 0,
        x.stride(0), residual.stride(0) if residual is not None else 0,
        CAST=cast, num_warps=config["warps"], **shape,
    )  # fmt: skip
