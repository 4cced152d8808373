"""The vendor's products and quantisation."""

from __future__ import annotations

import torch
from torch import Tensor

from kunport_runtime.simulator.rules import require

# Which column of eight a nibble of a word holds, from its low end (where columns are no multiple of 64).
COLUMNS = (1, 0, 3, 2, 5, 4, 7, 6)


def matmul(
    x: Tensor,
    w: Tensor,
    out: Tensor,
    x_trans: bool = False,
    w_trans: bool = True,
    alpha: float = 1.0,
    beta: float = 0.0,
    bias: Tensor | None = None,
    x_max: Tensor | None = None,
    w_max: Tensor | None = None,
    x_pc_max: Tensor | None = None,
    w_pc_max: Tensor | None = None,
) -> None:
    """``alpha * x @ w.T + beta * out + bias``; of int8 operands with the maxima of their rows (``_pc_max``).

    Where:
        x: ``[rows, in]``, transposed where ``x_trans``; floats, or int8 with ``x_pc_max`` ``[rows]`` float32.
        w: ``[outputs, in]`` where ``w_trans``; floats, or int8 with ``w_pc_max`` ``[outputs]`` float32.
        out: ``[rows, outputs]``.
        bias: ``[outputs]`` float32.
    """
    if x_max is not None or w_max is not None:
        raise NotImplementedError("The simulator has the maxima of rows only.")
    for each in (x, w, out):
        require("product_contiguous", each.is_contiguous(), f"an operand with strides {each.stride()}")
    if bias is not None:
        fits = bias.dtype == torch.float32 and bias.is_contiguous()
        require("bias_float32", fits, f"a bias of {bias.dtype}")
    wide = torch.float64 if x.dtype == torch.int8 else torch.float32  # products of int8 are exact
    rows, columns = (x.T if x_trans else x).to(wide), (w.T if w_trans else w).to(wide)
    result = (rows @ columns).float() * alpha
    if x_pc_max is not None and w_pc_max is not None:
        result = result * (x_pc_max.reshape(-1, 1) / 127) * (w_pc_max.reshape(1, -1) / 127)
    if bias is not None:
        result = result + bias
    out.copy_(result if beta == 0 else result + beta * out.float())


def cutlass_scaled_mm(out: Tensor, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None) -> None:
    """``a @ b`` of int8 ``[rows, in]`` and ``[in, outputs]`` with plain scales, into ``out``."""
    for each in (out, a, b):
        require("product_contiguous", each.is_contiguous(), f"an operand with strides {each.stride()}")
    result = (a.double() @ b.double()).float() * scale_a.reshape(-1, 1) * scale_b.reshape(1, -1)
    out.copy_(result if bias is None else result + bias.float())


def quant2d(x: Tensor, y: Tensor, max: Tensor, force_sdnn: bool = False) -> None:  # noqa: A002 (the vendor's name)
    """Rows to int8 ``y``, and the largest magnitude of each row to ``max`` ``[rows, 1]`` float32."""
    for each in (x, y, max):
        require("product_contiguous", each.is_contiguous(), f"an operand with strides {each.stride()}")
    largest = x.float().abs().amax(-1, keepdim=True)
    max.copy_(largest)
    scale = torch.where(largest == 0, 1.0, largest / 127)
    y.copy_((x.float() / scale).round().to(torch.int8))


def awq_dequantize(
    qweight: Tensor, scales: Tensor, zeros: Tensor, weight: Tensor, group_m: int, quant_type: int, align_type: int
) -> None:
    """``(nibble - zero) * scale`` into ``weight`` ``[in, outputs]`` float16.

    Where:
        qweight: ``[in, outputs / 8]`` int32.
        scales: ``[in / group_m, outputs]``.
        zeros: ``[in / group_m, outputs / 8]`` int32.
        align_type: 0 for words as in `COLUMNS`; 1, another order in words of 64 columns, is not simulated.
    """
    if quant_type or align_type:
        raise NotImplementedError("The simulator has quant_type 0 and align_type 0 only.")
    require("awq_float16", weight.dtype == torch.float16, f"a weight of {weight.dtype}")
    quotient, zero = _nibbles(qweight), _nibbles(zeros).repeat_interleave(group_m, dim=0)
    weight.copy_((quotient - zero) * scales.float().repeat_interleave(group_m, dim=0))


def awq_gemm(x: Tensor, w: Tensor, scale: Tensor, zeros: Tensor, out: Tensor, align_type: int, group_size: int) -> None:
    """``x`` times the weight of `awq_dequantize`, into ``out`` float16."""
    require("awq_float16", x.dtype == out.dtype == torch.float16, f"operands of {x.dtype} and {out.dtype}")
    weight = torch.empty(w.shape[0], w.shape[1] * 8, dtype=torch.float16)
    awq_dequantize(w, scale, zeros, weight, group_size, 0, align_type)
    out.copy_(x.float() @ weight.float())


def _nibbles(words: Tensor) -> Tensor:
    """``[rows, words]`` int32 to ``[rows, words * 8]`` float32, columns in order."""
    stored = (words.unsqueeze(-1) >> torch.arange(0, 32, 4, dtype=torch.int32)) & 15
    columns = torch.empty_like(stored)
    columns[..., list(COLUMNS)] = stored
    return columns.flatten(-2).float()


OPERATORS = ("matmul", "cutlass_scaled_mm", "quant2d", "awq_dequantize", "awq_gemm")
