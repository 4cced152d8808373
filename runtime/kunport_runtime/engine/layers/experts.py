"""Mixtures of experts without quantisation: the choice of experts and their matrix products, by kunport's operators."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from vllm.model_executor.layers.fused_moe.activation import MoEActivation
from vllm.model_executor.layers.fused_moe.config import get_routing_method_type
from vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method import (
    UnquantizedFusedMoEMethod as VllmMethod,
)

from kunport_runtime import operators
from kunport_runtime.engine.layers.plain_experts import plain_experts
from kunport_runtime.errors import KunportRuntimeError
from kunport_runtime.operators.accounting import layer as counted_layer

_ACTIVATIONS = {
    MoEActivation.SILU: {"activation": "silu"},
    MoEActivation.GELU: {"activation": "gelu"},
    MoEActivation.GELU_TANH: {"activation": "gelu_tanh"},
    MoEActivation.SWIGLUOAI: {"activation": "silu", "packing": "interleaved"},
    MoEActivation.SWIGLUOAI_UNINTERLEAVE: {"activation": "silu"},
}
_PLAIN = {
    MoEActivation.SILU_NO_MUL: "silu",
    MoEActivation.GELU_NO_MUL: "gelu",
    MoEActivation.GELU_TANH_NO_MUL: "gelu_tanh",
    MoEActivation.RELU2_NO_MUL: "relu_squared",
}
_SCORINGS = ("softmax", "sigmoid")


class UnquantizedFusedMoEMethod(VllmMethod):
    """Takes the router's logits (vLLM calls that monolithic) where the routing is one that the operator knows; else the
    experts that vLLM's router chose.
    """

    operators = ("expert_routing", "fused_experts")

    def __init__(self, moe: Any) -> None:
        super().__init__(moe)
        self._routes = False  # known once `create_weights` has seen the layer
        plain = moe.activation in _PLAIN
        if plain:
            self.operators = ("expert_routing", "grouped_matmul")
        if (not plain and moe.activation not in _ACTIVATIONS) or (plain and moe.has_bias):
            raise KunportRuntimeError(
                f"Experts with the activation {moe.activation.value!r}{' and biases' * moe.has_bias} have no operator.",
                "Run vLLM without kunport for this model.",
            )
        if moe.moe_parallel_config.enable_eplb:
            raise KunportRuntimeError("Balancing the load of experts is not served.", "Start without --enable-eplb.")

    def create_weights(self, layer: Any, *arguments: Any, **options: Any) -> None:
        super().create_weights(layer, *arguments, **options)
        self._routes = _is_known_routing(layer)

    @property
    def is_monolithic(self) -> bool:
        return self._routes

    def apply_monolithic(self, layer: Any, x: Tensor, router_logits: Tensor, input_ids: Tensor | None = None) -> Tensor:
        """``x`` ``[tokens, hidden]`` and logits ``[tokens, experts]`` to ``[tokens, hidden]``."""
        if layer.custom_routing_function is not None:
            weights, ids = layer.custom_routing_function(
                hidden_states=x, gating_output=router_logits, topk=layer.top_k, renormalize=layer.renormalize
            )
        else:
            with counted_layer(layer.layer_name):
                weights, ids = _route(layer, router_logits)
        return self._experts(layer, x, weights, ids)

    def forward_oot(
        self,
        layer: Any,
        x: Tensor,
        topk_weights: Tensor,
        topk_ids: Tensor,
        shared_experts: Any,
        shared_experts_input: Tensor | None,
    ) -> Tensor:
        return self._experts(layer, x, topk_weights, topk_ids)

    def _experts(self, layer: Any, x: Tensor, weights: Tensor, ids: Tensor) -> Tensor:
        if layer.expert_map is not None:  # this rank's experts; -1 for those of another
            ids = layer.expert_map[ids.long()]
        if layer.apply_router_weight_on_input:
            x, weights = (x * weights.to(x.dtype)), torch.ones_like(weights)
        weights, ids = weights.to(torch.float32), ids.to(torch.int32)
        with counted_layer(layer.layer_name):
            if layer.activation in _PLAIN:
                return plain_experts(x, layer.w13_weight, layer.w2_weight, weights, ids, _PLAIN[layer.activation])
            out: Tensor = operators.fused_experts(
                x=x,
                gate_up_weight=layer.w13_weight,
                down_weight=layer.w2_weight,
                weights=weights,
                ids=ids,
                gate_up_bias=getattr(layer, "w13_bias", None),
                down_bias=getattr(layer, "w2_bias", None),
                **_gate(layer),
            )
        return out


def _is_known_routing(layer: Any) -> bool:
    """Whether the layer's parameters say all about its routing: a router of a model's own kind is not among them."""
    if layer.custom_routing_function is not None:
        return True
    declared = get_routing_method_type(
        scoring_func=layer.scoring_func,
        top_k=layer.top_k,
        renormalize=layer.renormalize,
        num_expert_group=layer.num_expert_group if layer.use_grouped_topk else None,
        has_e_score_bias=layer.e_score_correction_bias is not None,
    )
    known = layer.scoring_func in _SCORINGS and not layer.moe_config.has_hash_routing
    return known and layer.moe_config.routing_method == declared


def _route(layer: Any, router_logits: Tensor) -> tuple[Tensor, Tensor]:
    """Weights ``[tokens, top_k]`` float32 and ids int32 of the chosen experts."""
    tokens = router_logits.shape[0]
    weights = torch.empty(tokens, layer.top_k, dtype=torch.float32, device=router_logits.device)
    ids = torch.empty(tokens, layer.top_k, dtype=torch.int32, device=router_logits.device)
    bias = layer.e_score_correction_bias
    grouped = layer.use_grouped_topk and layer.num_expert_group and layer.num_expert_group > 1
    operators.expert_routing(
        weights=weights,
        ids=ids,
        logits=router_logits,
        correction_bias=None if bias is None else bias.data.to(torch.float32),
        scoring=layer.scoring_func,
        renormalize=bool(layer.renormalize),
        groups=layer.num_expert_group if grouped else 1,
        top_groups=layer.topk_group if grouped else 1,
        group_score="maximum" if bias is None else "top_two_sum",
        scale=float(layer.routed_scaling_factor),
    )
    return weights, ids


def _gate(layer: Any) -> dict[str, Any]:
    """The activation as the operator names it. vLLM's defaults of the clamped one are OpenAI's."""
    options: dict[str, Any] = dict(_ACTIVATIONS[layer.activation])
    clamped = layer.activation in (MoEActivation.SWIGLUOAI, MoEActivation.SWIGLUOAI_UNINTERLEAVE)
    for option, attribute, default in (
        ("alpha", "swiglu_alpha", 1.702 if clamped else 1.0),
        ("limit", "swiglu_limit", 7.0 if clamped else 0.0),
        ("up_offset", "swiglu_beta", 1.0 if clamped else 0.0),
    ):
        value = getattr(layer, attribute, None)
        options[option] = default if value is None else float(value)
    return options
