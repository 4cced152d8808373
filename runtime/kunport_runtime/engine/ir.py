"""kunport's implementations of ``vllm.ir`` operators, for callers that use these rather than a layer.

vLLM normalises the float32 sum in its fused operator; kunport, as Hugging Face does, the sum rounded to the tensors'
dtype. The difference is one rounding, within vLLM's own tolerance of the operator.
"""

from __future__ import annotations

import torch
from torch import Tensor
from vllm import ir

from kunport_runtime import operators

PROVIDER = "kunport"


def cast_order(x: Tensor, weight: Tensor | None) -> str:
    """Where the rounding is: vLLM says it by the weight's dtype, of which a wider one multiplies before it."""
    return "before_weight" if weight is None or weight.dtype == x.dtype else "after_weight"


def _whole_rows(x: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None) -> bool:
    return variance_size is None


@ir.ops.rms_norm.register_impl(PROVIDER, supports_args=_whole_rows)
def rms_norm(x: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None) -> Tensor:
    rows = x.reshape(-1, x.shape[-1])
    out = operators.rms_norm(x=rows, weight=weight, epsilon=epsilon, cast=cast_order(x, weight))
    return out.view(x.shape)


def _whole_sums(
    x: Tensor, x_residual: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None
) -> bool:
    return variance_size is None


@ir.ops.fused_add_rms_norm.register_impl(PROVIDER, supports_args=_whole_sums)
def fused_add_rms_norm(
    x: Tensor, x_residual: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None
) -> tuple[Tensor, Tensor]:
    rows = x.reshape(-1, x.shape[-1])
    out, residual = torch.empty_like(rows), torch.empty_like(rows)
    operators.fused_add_rms_norm(
        out=out,
        residual_out=residual,
        x=rows,
        residual=x_residual.reshape(rows.shape),
        weight=weight,
        epsilon=epsilon,
        cast=cast_order(x, weight),
    )
    return out.view(x.shape), residual.view(x.shape)
