"""Gives vLLM the layers that stand in for its own."""

from __future__ import annotations

from vllm.model_executor.custom_op import CustomOp, op_registry_oot

from kunport_runtime.engine.layers import activations, experts, norms, positions
from kunport_runtime.engine.layers.positions import PLAIN, rotating
from kunport_runtime.engine.platforms.patches import allow_plain_experts

LAYERS = (
    norms.RMSNorm,
    norms.GemmaRMSNorm,
    norms.LayerNorm,
    norms.RMSNormGated,
    positions.MRotaryEmbedding,
    activations.SiluAndMul,
    activations.GeluAndMul,
    activations.SiluAndMulWithClamp,
    activations.SwigluOAIAndMul,
    experts.UnquantizedFusedMoEMethod,
)


def register_layers() -> None:
    """Register every layer by the name of the class that it stands in for; once in a process."""
    if "RMSNorm" in op_registry_oot:
        return
    for layer in (*LAYERS, *(rotating(plain) for plain in PLAIN)):
        CustomOp.register_oot(layer, name=layer.__name__)
    allow_plain_experts()
