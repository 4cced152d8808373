"""Rules of experts and of sampling, each broken by a test of its name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from kunport_runtime.simulator import experts, sampling
from rule_breaking import hold, int32, raises


def choice(experts_: int = 8, **changed: Any) -> dict[str, Any]:
    return {
        "x": torch.randn(3, experts_),
        "topk_index": torch.empty(3, 2, dtype=torch.int32),
        "normed_score": torch.empty(3, 2),
        "block_statistic": torch.zeros(12, experts_, dtype=torch.int32),
    } | changed


def grouped(experts_: int = 8) -> dict[str, Any]:
    given = choice(experts_)
    return given | {"norm_score": given.pop("normed_score"), "bias": None, "n_group": 2, "topk_group": 1, "scale": 1.0}


def test_router_float32():
    half = {"x": torch.randn(3, 8).bfloat16()}
    hold("router_float32", experts.moe_softmax_topk, choice(), half)
    hold("router_float32", experts.moe_softmax_topk_norm, choice(), half)
    hold("router_float32", experts.moe_sigmoid_group_topk_norm, grouped(), half)


def sorting(experts_: int = 8, **changed: Any) -> dict[str, Any]:
    ids = int32(3, 1, 0, 3, 5, 1).view(3, 2)
    statistic = torch.zeros(12, experts_, dtype=torch.int32)
    experts.gen_block_statistic(ids, statistic)
    return {
        "x": torch.randn(3, 16),
        "topk_index": ids,
        "block_statistic": statistic,
        "moe_expand": torch.empty(6, 16),
        "moe_index": torch.empty(6, dtype=torch.int32),
        "expert_m": torch.empty(experts_, dtype=torch.int32),
        "sorted_tokens_num_lod": torch.empty(experts_ + 1, dtype=torch.int32),
    } | changed


def test_experts_limit():
    hold("experts_limit", experts.moe_sigmoid_group_topk_norm, grouped(512), grouped(514))
    hold("experts_limit", experts.moe_pre_sorted, sorting(512), sorting(513))


def test_block_statistic():
    empty = torch.zeros(12, 8, dtype=torch.int32)
    hold("block_statistic", experts.moe_pre_sorted, sorting(), {"block_statistic": empty})


def test_expert_ids():
    hold("expert_ids", experts.moe_pre_sorted, sorting(), {"topk_index": int32(3, -1, 0, 3, 5, 1).view(3, 2)})


def test_moe_activation():
    rows, starts = torch.randn(1024, 2), int32(0, 1024)
    large = {"x": rows, "weight": torch.randn(1, 2, 2), "sorted_tokens_num_lod": starts, "moe_topk": 1}
    large |= {"sorted_tokens_idx": torch.arange(1024, dtype=torch.int32), "y": torch.empty(1024, 1, 2)}
    hold("moe_activation", experts.moe_fc, large, {"act": "SWISH_GLU"})


def test_fused_moe_small():
    """What it computes is not public: below its bound it says so, from there on it names the rule."""

    def call(tokens: int) -> torch.Tensor:
        x, scores = torch.randn(tokens, 4), torch.rand(tokens, 2)
        return experts.fused_moe(x, torch.randn(2, 6, 4), torch.randn(2, 4, 3), scores, None, None, None)

    with pytest.raises(NotImplementedError):
        call(199)
    with raises("fused_moe_small"):
        call(200)


PROBABILITIES = torch.rand(4, 50).softmax(-1)
SAMPLERS = (
    (sampling.top_k_sampling_from_probs, {"top_k": int32(5, 5, 5, 50)}),
    (sampling.top_p_sampling_from_probs, {"top_p": torch.full((4,), 0.5)}),
    (sampling.top_k_top_p_sampling_from_probs, {"top_k": int32(5, 5, 5, 50), "top_p": torch.full((4,), 0.5)}),
)


@pytest.mark.parametrize(("call", "options"), SAMPLERS)
def test_sampling_form(call, options):
    good = {"probs": PROBABILITIES} | options
    hold("sampling_form", call, good, {"probs": PROBABILITIES.half()}, {"probs": PROBABILITIES.T.contiguous().T})


@pytest.mark.parametrize(("call", "options"), SAMPLERS)
def test_request_generator(call, options):
    hold("request_generator", call, {"probs": PROBABILITIES} | options, {"generator": torch.Generator()})


def test_seed_ignored():
    """Two ranks that seed alike draw apart; with a request's generator they draw alike."""
    flat = torch.full((64, 1000), 0.001)
    drawn = []
    for _ in range(2):
        torch.manual_seed(1)
        drawn.append(sampling.top_k_sampling_from_probs(flat, top_k=torch.full((64,), 1000)))
    assert not torch.equal(drawn[0], drawn[1])
    noise = [torch.empty(64) for _ in range(2)]
    for each in noise:
        sampling.inplace_exponential(each, torch.Generator().manual_seed(1))
    assert torch.equal(noise[0], noise[1])
