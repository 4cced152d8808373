"""The vendor's norms: in float32, rounded once. Where the device rounds on the way is not public."""

from __future__ import annotations

import torch
from torch import Tensor

from kunport_runtime.simulator.rules import require


def rmsnorm(x: Tensor, weight: Tensor, output: Tensor, eps: float = 1e-5) -> None:
    """``x / sqrt(mean(x^2) + eps) * weight`` of rows."""
    _norm(x, weight, output, eps, 0.0)


def gemma_rmsnorm(x: Tensor, weight: Tensor, output: Tensor, eps: float = 1e-5) -> None:
    """The same with ``1 + weight``."""
    _norm(x, weight, output, eps, 1.0)


def add_rmsnorm(
    x: Tensor, y: Tensor, weight: Tensor, output: Tensor, eps: float = 1e-5, residual_output: Tensor | None = None
) -> None:
    """The norm of ``x + y``, and that sum into ``residual_output``; either may be one of the inputs."""
    _add_norm(x, y, weight, output, eps, residual_output, 0.0)


def gemma_add_rmsnorm(
    x: Tensor, y: Tensor, weight: Tensor, output: Tensor, eps: float = 1e-5, residual_output: Tensor | None = None
) -> None:
    """The same with ``1 + weight``."""
    _add_norm(x, y, weight, output, eps, residual_output, 1.0)


def rms_norm_gated(
    x: Tensor,
    output: Tensor,
    z: Tensor,
    weight: Tensor,
    eps: float,
    group_size: int = 0,
    norm_before_gate: bool = True,
    is_rms_norm: bool = True,
) -> None:
    """The norm of ``x`` times the SiLU of ``z``, or the norm of that product."""
    _hold_rows(x, output, z)
    whole = group_size in (0, None, x.shape[-1]) and is_rms_norm and x.dtype == z.dtype == weight.dtype
    require("gated_norm_form", whole, f"groups of {group_size}, {x.dtype}, {z.dtype} and {weight.dtype}")
    gate = torch.nn.functional.silu(z.float())
    rows = x.float() if norm_before_gate else x.float() * gate
    normed = _normed(rows, eps) * weight.float()
    output.copy_(normed * gate if norm_before_gate else normed)


def _norm(x: Tensor, weight: Tensor, output: Tensor, eps: float, offset: float) -> None:
    _hold_rows(x, output)
    _hold_weight(x, weight)
    output.copy_(_normed(x.float(), eps) * (weight.float() + offset))


def _add_norm(
    x: Tensor, y: Tensor, weight: Tensor, output: Tensor, eps: float, residual_output: Tensor | None, offset: float
) -> None:
    _hold_rows(x, y, output, *([] if residual_output is None else [residual_output]))
    _hold_weight(x, weight)
    total = x + y
    if residual_output is not None:
        residual_output.copy_(total)
    output.copy_(_normed(total.float(), eps) * (weight.float() + offset))


def _normed(x: Tensor, eps: float) -> Tensor:
    return x / torch.sqrt(x.square().mean(-1, keepdim=True) + eps)


def _hold_rows(*rows: Tensor) -> None:
    for each in rows:
        require("norm_contiguous", each.is_contiguous(), f"rows with strides {each.stride()}")


def _hold_weight(x: Tensor, weight: Tensor) -> None:
    holds = weight.is_contiguous() and weight.dtype in (torch.float32, x.dtype)
    require("norm_weight", holds, f"a weight of {weight.dtype} for {x.dtype}")


OPERATORS = ("rmsnorm", "gemma_rmsnorm", "add_rmsnorm", "gemma_add_rmsnorm", "rms_norm_gated")
