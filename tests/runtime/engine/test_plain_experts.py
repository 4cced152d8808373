"""Experts that are not gated: what they compute, and that vLLM lets them be where kunport serves them."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest
import torch
from kunport_runtime.engine.layers.plain_experts import plain_experts
from kunport_runtime.engine.platforms.patches import allow_plain_experts

ACTIVATIONS = {
    "relu_squared": lambda x: np.maximum(x, 0) ** 2,
    "silu": lambda x: x / (1 + np.exp(-x)),
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("tokens", "experts", "top_k"), [(1, 4, 2), (17, 5, 3), (6, 1, 1)])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_each_token_has_its_experts_outputs(
    activation: str, tokens: int, experts: int, top_k: int, elsewhere: bool
) -> None:
    draw = torch.Generator().manual_seed(0)
    x, up = torch.randn(tokens, 12, generator=draw), torch.randn(experts, 7, 12, generator=draw)
    down, weights = torch.randn(experts, 12, 7, generator=draw), torch.rand(tokens, top_k, generator=draw)
    ids = torch.stack([torch.randperm(experts, generator=draw)[:top_k] for _ in range(tokens)]).int()
    if elsewhere:
        ids[0, 0] = -1
        ids[ids == 2] = -1
    wanted = np.zeros((tokens, 12))
    for token in range(tokens):
        for weight, expert in zip(weights[token].tolist(), ids[token].tolist(), strict=True):
            if expert >= 0:
                hidden = ACTIVATIONS[activation](up[expert].numpy() @ x[token].numpy())
                wanted[token] += weight * (down[expert].numpy() @ hidden)
    found = plain_experts(x, up, down, weights, ids, activation)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-4)


def test_vllm_refuses_what_it_refused_but_experts_without_a_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("vllm.model_executor.layers.fused_moe.config")

    class FusedMoEConfig:
        def __init__(self, is_act_and_mul: bool, error: type[Exception]) -> None:
            self.is_act_and_mul, self.error = is_act_and_mul, error
            self.__post_init__()

        def __post_init__(self) -> None:
            raise self.error

    module.FusedMoEConfig = FusedMoEConfig  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for parent in ("vllm", "vllm.model_executor", "vllm.model_executor.layers", "vllm.model_executor.layers.fused_moe"):
        monkeypatch.setitem(sys.modules, parent, ModuleType(parent))
    allow_plain_experts()
    FusedMoEConfig(is_act_and_mul=False, error=NotImplementedError)
    for gated, error in ((True, NotImplementedError), (False, ValueError)):
        with pytest.raises(error):
            FusedMoEConfig(gated, error)
