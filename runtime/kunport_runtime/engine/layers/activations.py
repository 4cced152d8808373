"""Gated activations."""

from __future__ import annotations

from torch import Tensor
from vllm.model_executor.layers import activation as vllm_activations

from kunport_runtime import operators
from kunport_runtime.engine.layers.naming import Named, counted


def _gated(x: Tensor, **options: object) -> Tensor:
    """``[..., 2 * size]`` to ``[..., size]``."""
    out: Tensor = operators.gated_activation(x=x.reshape(-1, x.shape[-1]), **options)
    return out.view(*x.shape[:-1], -1)


class SiluAndMul(Named, vllm_activations.SiluAndMul):
    operators = ("gated_activation",)

    @counted
    def forward_oot(self, x: Tensor) -> Tensor:
        return _gated(x, activation="silu")


class GeluAndMul(Named, vllm_activations.GeluAndMul):
    operators = ("gated_activation",)

    @counted
    def forward_oot(self, x: Tensor) -> Tensor:
        return _gated(x, activation="gelu_tanh" if self.approximate == "tanh" else "gelu")


class SiluAndMulWithClamp(Named, vllm_activations.SiluAndMulWithClamp):
    operators = ("gated_activation",)

    @counted
    def forward_oot(self, x: Tensor) -> Tensor:
        return _gated(x, activation="silu", alpha=self.alpha, limit=self.swiglu_limit, up_offset=self.beta)


class SwigluOAIAndMul(Named, vllm_activations.SwigluOAIAndMul):
    operators = ("gated_activation",)

    @counted
    def forward_oot(self, x: Tensor) -> Tensor:
        return _gated(x, activation="silu", packing="interleaved", alpha=self.alpha, limit=self.limit, up_offset=1.0)
