"""Products. The vendor keeps maxima where we keep scales of int8: 127 times as much."""

from __future__ import annotations

import torch
from torch import Tensor

from kunport_runtime.providers.vendor.operands import result
from kunport_runtime.providers.vendor.wheel import installed_wheel

LARGEST = 127.0


def linear(out: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    """Of floats."""
    _product(out, x, weight, bias, None, None)


def int8_matmul(
    out: Tensor, x: Tensor, weight: Tensor, x_scale: Tensor, weight_scale: Tensor, bias: Tensor | None
) -> None:
    """Of int8, with a maximum for each row and each output."""
    _product(out, x, weight, bias, x_scale * LARGEST, weight_scale * LARGEST)


def quantize_rows(out: Tensor, scale: Tensor, x: Tensor, group: int) -> None:
    """Whole rows to int8; rows of zeros have the scale 1."""
    maxima = torch.empty(len(x), 1, dtype=torch.float32, device=x.device)
    with result(out) as rows:
        installed_wheel().operator("quant2d")(x=x.contiguous(), y=rows, max=maxima, force_sdnn=True)
    scale.copy_(torch.where(maxima == 0, 1.0, maxima / LARGEST))


def _product(
    out: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, x_maxima: Tensor | None, weight_maxima: Tensor | None
) -> None:
    with result(out) as rows:
        installed_wheel().operator("matmul")(
            x=x.contiguous(),
            w=weight.contiguous(),
            out=rows,
            x_trans=False,
            w_trans=True,
            alpha=1.0,
            beta=0.0,
            bias=None if bias is None else bias.float(),
            x_max=None,
            w_max=None,
            x_pc_max=x_maxima,
            w_pc_max=weight_maxima,
        )
