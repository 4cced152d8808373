"""Gated activations: the vendor has SiLU of the first half."""

from __future__ import annotations

from torch import Tensor

from kunport_runtime.providers.vendor.operands import result
from kunport_runtime.providers.vendor.wheel import installed_wheel


def gated_activation(
    out: Tensor, x: Tensor, activation: str, packing: str, alpha: float, limit: float, up_offset: float
) -> None:
    """The options have one value each, which the limits hold."""
    with result(out) as rows:
        installed_wheel().operator("swiglu")(x=x.contiguous(), y=rows)
