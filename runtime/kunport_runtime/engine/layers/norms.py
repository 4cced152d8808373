"""Norms."""

from __future__ import annotations

import torch
from torch import Tensor
from vllm.model_executor.layers import layernorm as vllm_norms

from kunport_runtime import operators
from kunport_runtime.engine.ir import cast_order
from kunport_runtime.engine.layers.naming import Named, counted

_Normed = Tensor | tuple[Tensor, Tensor]


def _rms_norm(
    x: Tensor, residual: Tensor | None, weight: Tensor | None, epsilon: float, offset: float, cast: str
) -> _Normed:
    """The norm of ``x``, or of ``x + residual`` and that sum; ``residual`` is overwritten by it, as vLLM does."""
    rows = x.reshape(-1, x.shape[-1])
    if residual is None:
        out: Tensor = operators.rms_norm(x=rows, weight=weight, epsilon=epsilon, offset=offset, cast=cast)
        return out.view(x.shape)
    sums = residual.reshape(rows.shape)
    out = torch.empty_like(rows)
    operators.fused_add_rms_norm(
        out=out, residual_out=sums, x=rows, residual=sums, weight=weight, epsilon=epsilon, offset=offset, cast=cast
    )
    return out.view(x.shape), sums.view(x.shape)


class RMSNorm(Named, vllm_norms.RMSNorm):
    operators = ("rms_norm", "fused_add_rms_norm")

    @counted
    def forward_oot(self, x: Tensor, residual: Tensor | None = None) -> _Normed:
        if self.variance_size_override is not None:  # a norm over a part of the row has no operator
            return self.forward_native(x, residual)
        weight = self.weight.data if (self.pass_weight if residual is None else self.pass_weight_add) else None
        return _rms_norm(x, residual, weight, self.variance_epsilon, 0.0, cast_order(x, weight))


class GemmaRMSNorm(Named, vllm_norms.GemmaRMSNorm):
    operators = ("rms_norm", "fused_add_rms_norm")

    @counted
    def forward_oot(self, x: Tensor, residual: Tensor | None = None) -> _Normed:
        return _rms_norm(x, residual, self.weight.data, self.variance_epsilon, 1.0, "after_weight")


class LayerNorm(Named, vllm_norms.LayerNorm):
    operators = ("layer_norm",)

    @counted
    def forward_oot(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        out: Tensor = operators.layer_norm(x=rows, weight=self.weight, bias=self.bias, epsilon=self.eps)
        return out.view(x.shape)


class RMSNormGated(Named, vllm_norms.RMSNormGated):
    operators = ("gated_rms_norm", "rms_norm")

    @counted
    def forward_oot(self, x: Tensor, z: Tensor | None = None) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        if z is None and self.group_size is not None:  # groups without a gate have no operator
            return self.forward_native(x, z)
        if z is None:
            out: Tensor = operators.rms_norm(x=rows, weight=self.weight.data, epsilon=self.eps, cast="none")
            return out.view(x.shape)
        out = operators.gated_rms_norm(
            x=rows,
            gate=z.reshape(rows.shape),
            weight=self.weight.data,
            epsilon=self.eps,
            group_size=self.group_size or 0,
            order="norm_first" if self.norm_before_gate else "gate_first",
            activation="sigmoid" if self.activation == "sigmoid" else "silu",
        )
        return out.view(x.shape)
