"""Norms. The vendor adds 1 to a weight (Gemma) or nothing, and wants contiguous rows."""

from __future__ import annotations

from torch import Tensor

from kunport_runtime.providers.vendor.operands import result
from kunport_runtime.providers.vendor.wheel import installed_wheel


def rms_norm(out: Tensor, x: Tensor, weight: Tensor, epsilon: float, offset: float, cast: str) -> None:
    """``cast`` is where a result is rounded on its way: within the tolerance, and the vendor's own affair."""
    norm = installed_wheel().operator("gemma_rmsnorm" if offset else "rmsnorm")
    with result(out) as rows:
        norm(x.contiguous(), weight, rows, epsilon)


def fused_add_rms_norm(
    out: Tensor,
    residual_out: Tensor,
    x: Tensor,
    residual: Tensor,
    weight: Tensor,
    epsilon: float,
    offset: float,
    cast: str,
) -> None:
    """The sum goes where the residual was, as public callers have it too."""
    norm = installed_wheel().operator("gemma_add_rmsnorm" if offset else "add_rmsnorm")
    with result(out) as rows, result(residual_out) as sums:
        norm(
            x.contiguous(),
            residual.contiguous(),
            weight=weight,
            output=rows,
            eps=epsilon,
            residual_output=sums,
        )


def gated_rms_norm(
    out: Tensor,
    x: Tensor,
    gate: Tensor,
    weight: Tensor,
    epsilon: float,
    group_size: int,
    order: str,
    activation: str,
) -> None:
    """Whole rows only, with the SiLU of the gate."""
    norm = installed_wheel().operator("rms_norm_gated")
    with result(out) as rows:
        norm(x.contiguous(), rows, gate.contiguous(), weight, epsilon, x.shape[-1], order == "norm_first", True)
