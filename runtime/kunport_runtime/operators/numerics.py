"""What the references share."""

from __future__ import annotations

import torch
from torch.nn import functional


def wide(x: torch.Tensor) -> torch.Tensor:
    """``x`` in float32, in which operators compute; float64 stays, so that a reference can be checked in it."""
    return x if x.dtype == torch.float64 else x.float()


def rms(x: torch.Tensor, epsilon: float) -> torch.Tensor:
    """``x / sqrt(mean(x^2) + epsilon)`` over the last dimension, in the dtype of ``x``."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon)


def scaled_rms(x: torch.Tensor, weight: torch.Tensor | None, epsilon: float, offset: float, cast: str) -> torch.Tensor:
    """The RMS norm of `rms_norm`, in the dtype of ``x``."""
    normed = rms(x if cast == "none" else wide(x), epsilon)
    if weight is None:
        return normed.to(x.dtype)
    if cast == "before_weight":
        return (normed.to(x.dtype) * (weight + offset).to(x.dtype)).to(x.dtype)
    return (normed * (weight.to(normed.dtype) + offset)).to(x.dtype)


def activate(x: torch.Tensor, activation: str, alpha: float = 1.0) -> torch.Tensor:
    """An activation by name. ``alpha`` is the factor inside the sigmoid of ``silu``."""
    if activation == "silu":
        return x * torch.sigmoid(alpha * x)
    if activation == "gelu":
        return functional.gelu(x)
    if activation == "gelu_tanh":
        return functional.gelu(x, approximate="tanh")
    if activation == "relu_squared":
        return functional.relu(x).square()
    if activation == "identity":
        return x
    return {"relu": torch.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh}[activation](x)


def to_fp8(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """``x`` in a dtype of 8 bits: the nearest, and the largest finite one beyond it."""
    largest = torch.finfo(dtype).max
    return x.clamp(-largest, largest).to(dtype)
