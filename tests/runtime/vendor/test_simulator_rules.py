"""Every rule of the simulator is broken by one test, which breaks that rule and no other.

A test is named after its rule; the last one fails where a rule has none. A rule that a call shows must raise
`VendorRuleError`, and the same call without the fault must not. A rule that only numbers show must give wrong ones.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from kunport_runtime.operators.check import check
from kunport_runtime.operators.registry import registry
from kunport_runtime.simulator import attention, elementwise, experts, norms, products, sampling
from kunport_runtime.simulator.rules import RULES, VendorRuleError
from kunport_runtime.simulator.schema import hold_schema
from simulated_wheel import offered, simulated


def raises(rule: str) -> AbstractContextManager[Any]:
    return pytest.raises(VendorRuleError, match=f"^{rule}: ")


def int32(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int32)


def hold(rule: str, call: Callable[..., Any], good: dict[str, Any], *faults: dict[str, Any]) -> None:
    """The call keeps every rule; with each of the faults it breaks this one."""
    call(**good)
    for fault in faults:
        with raises(rule):
            call(**good | fault)


def prefill(**changed: Any) -> dict[str, Any]:
    """A prefill of two sequences over pages."""
    return {
        "q": torch.randn(5, 4, 32),
        "k": torch.randn(4, 2, 8, 32),
        "v": torch.randn(4, 2, 8, 32),
        "out": torch.empty(5, 4, 32),
        "is_causal": True,
        "is_prefix_cache": True,
        "block_table": torch.tensor([[0, 2], [1, 3]], dtype=torch.int32),
        "context_qlen_lod_cpu": int32(0, 2, 5),
        "context_qlen_lod_xpu": int32(0, 2, 5),
        "context_kvlen_lod_cpu": int32(0, 9, 12),
        "context_kvlen_lod_xpu": int32(0, 9, 12),
        "sink": torch.randn(4),
    } | changed


def decode(sequences: int = 2, **changed: Any) -> dict[str, Any]:
    """A decode over pages."""
    return {
        "out": torch.empty(sequences, 4, 32),
        "q": torch.randn(1, sequences, 4, 32),
        "k_cache": torch.randn(4, 2, 8, 32),
        "v_cache": torch.randn(4, 2, 8, 32),
        "context_lens_cpu": int32(*[9] * sequences),
        "context_lens_xpu": int32(*[9] * sequences),
        "batch_num": sequences,
        "qlen": 1,
        "max_context_len": 16,
        "head_num": 4,
        "head_dim": 32,
        "scale": 1.0,
        "kv_head_num": 2,
        "block_size": 8,
        "max_num_blocks_per_seq": 2,
        "block_tables": int32(*[0, 3] * sequences).view(sequences, 2),
        "sink": torch.randn(4),
    } | changed


def test_cache_layout():
    by_token = torch.randn(4, 8, 2, 32)
    hold(
        "cache_layout",
        attention.speculative_attention,
        decode(),
        {"k_cache": by_token},  # heads and tokens the wrong way round
        {"v_cache": by_token.transpose(1, 2)},  # the right shape, and gaps within a page
        {"k_cache": torch.randn(4, 3, 2, 8, 32)[:, 0]},  # two pages between two pages
    )
    rows = torch.randn(3, 2, 32)
    good = {"k": rows, "v": rows, "k_cache": by_token, "v_cache": by_token.clone(), "slot_mapping": int32(0, 1, 9)}
    hold("cache_layout", attention.reshape_and_cache_flash, good, {"BLHD_LAYOUT": False})
    latents = {"kv_c": torch.randn(2, 16), "k_pe": torch.randn(2, 8), "slot_mapping": int32(0, 3)}
    good = latents | {"kv_cache": torch.randn(2, 4, 24)}
    hold("cache_layout", attention.concat_and_cache_mla, good, {"kv_cache": torch.randn(2, 4, 32)[..., :24]})


def test_tables_doubled():
    both = torch.randn(4, 2, 2, 8, 32)  # blocks, keys and values, heads, tokens
    good = decode(k_cache=both[:, 0], v_cache=both[:, 1], block_tables=2 * decode()["block_tables"])
    hold("tables_doubled", attention.speculative_attention, good, {"block_tables": decode()["block_tables"]})
    expected = torch.empty_like(good["out"])
    plain = {"k_cache": both[:, 0].contiguous(), "v_cache": both[:, 1].contiguous()}
    attention.speculative_attention(**good | plain | {"out": expected, "block_tables": good["block_tables"] // 2})
    torch.testing.assert_close(good["out"], expected)


def test_tables_form():
    table = decode()["block_tables"]
    hold(
        "tables_form",
        attention.speculative_attention,
        decode(),
        {"block_tables": table.long()},
        {"block_tables": table.T.contiguous().T},
        {"block_tables": table[:, :1].contiguous(), "max_num_blocks_per_seq": 1},  # too few for the lengths
        {"max_num_blocks_per_seq": 3},
        {"block_tables": table + 4},  # pages that there are not
        {"block_tables": None},
    )
    hold("tables_form", attention.prefill_attention, prefill(), {"block_table": table[:1]})


def test_lengths_twice():
    hold(
        "lengths_twice",
        attention.prefill_attention,
        prefill(),
        {"context_kvlen_lod_xpu": int32(0, 8, 12)},
        {"context_qlen_lod_cpu": None},
        {"context_qlen_lod_xpu": None},
    )
    hold(
        "lengths_twice",
        attention.speculative_attention,
        decode(),
        {"context_lens_cpu": int32(9, 8)},
        {"context_lens_xpu": None},
        {"context_lens_cpu": torch.empty(2, dtype=torch.int32, device="meta")},
    )


def test_lod_form():
    def both(name: str, lod: torch.Tensor) -> dict[str, torch.Tensor]:
        return {f"context_{name}_lod_cpu": lod, f"context_{name}_lod_xpu": lod.clone()}

    hold(
        "lod_form",
        attention.prefill_attention,
        prefill(),
        both("qlen", int32(2, 3)),  # lengths instead of starts
        both("qlen", int32(0, 2, 4)),  # rows of nobody
        both("qlen", torch.tensor([0, 2, 5])),
        both("kvlen", int32(0, 12, 9)),
        both("kvlen", int32(0, 9)),
    )
    rows = torch.randn(5, 2, 32)
    dense = prefill(k=rows, v=rows, is_prefix_cache=False, block_table=None) | both("kvlen", int32(0, 2, 5))
    hold("lod_form", attention.prefill_attention, dense, both("kvlen", int32(0, 2, 4)))


def test_prefill_alpha():
    """Whoever gives the plain scale has scores that are too small by the root of the head size."""
    wrong(
        "paged_attention",
        "prefill_attention",
        lambda call, **options: call(**options | {"alpha": options["alpha"] / options["q"].shape[-1] ** 0.5}),
    )


def test_decode_scale():
    """Whoever gives prefill's alpha has scores that are too large by the same root."""
    wrong(
        "paged_attention",
        "speculative_attention",
        lambda call, **options: call(**options | {"scale": options["scale"] * options["head_dim"] ** 0.5}),
    )


def test_int8_maxima():
    """Whoever gives scales has results that are 127 times too small, twice."""
    wrong(
        "int8_matmul",
        "matmul",
        lambda call, **options: call(
            **options | {"x_pc_max": options["x_pc_max"] / 127, "w_pc_max": options["w_pc_max"] / 127}
        ),
    )


def wrong(contract: str, operator: str, fault: Callable[..., Any]) -> None:
    """With a fault in its calls of one operator, the vendor's way of a contract fails some of the contract's cases."""
    with simulated() as wheel:
        implementation = offered(wheel)[contract]
        assert not [each for each in check(registry.contract(contract), implementation, "float32") if each.fault]
        call = wheel.operator(operator)
        wheel._functions[operator] = lambda **options: fault(call, **options)
        outcomes = list(check(registry.contract(contract), implementation, "float32"))
    assert any("times the tolerance away" in each.fault for each in outcomes)


def test_head_sizes():
    def heads(size: int) -> dict[str, Any]:
        cache = torch.randn(4, 2, 8, size)
        return prefill(q=torch.randn(5, 4, size), out=torch.empty(5, 4, size), k=cache, v=cache)

    for size in attention.HEAD_SIZES:
        attention.prefill_attention(**heads(size))
    for size in (16, 33, 72, 160, 576):
        with raises("head_sizes"):
            attention.prefill_attention(**heads(size))


def test_decode_batch():
    hold("decode_batch", attention.speculative_attention, decode(32), decode(33))


def test_decode_one_query():
    hold("decode_one_query", attention.speculative_attention, decode(), {"qlen": 2})


def test_context_limit():
    hold("context_limit", attention.speculative_attention, decode(), {"max_context_len": 8})


def test_attention_contiguous():
    wide = torch.randn(2, 4, 64)
    hold(
        "attention_contiguous",
        attention.speculative_attention,
        decode(),
        {"q": wide[..., :32].unsqueeze(0)},
        {"out": wide[..., :32]},
    )
    hold("attention_contiguous", attention.prefill_attention, prefill(), {"q": torch.randn(5, 4, 64)[..., 32:]})


def test_sink_float32():
    hold("sink_float32", attention.prefill_attention, prefill(), {"sink": torch.randn(4).half()})


def test_right_window():
    good = prefill(is_causal=False, swa_left=4, swa_right=0)
    hold("right_window", attention.prefill_attention, good, {"swa_right": 1})


def test_tokens_contiguous():
    rows, wide, cache = torch.randn(3, 2, 32), torch.randn(3, 2, 64)[..., :32], torch.randn(4, 2, 8, 32)
    good = {
        "k": rows,
        "v": rows,
        "k_cache": cache,
        "v_cache": cache.clone(),
        "slot_mapping": int32(0, -1, 9),
        "BLHD_LAYOUT": False,
    }
    hold("tokens_contiguous", attention.reshape_and_cache_flash, good, {"k": wide}, {"v": wide})
    good = {"kv_c": torch.randn(2, 16), "k_pe": torch.randn(2, 8), "slot_mapping": int32(0, 3)}
    good |= {"kv_cache": torch.randn(2, 4, 24)}
    hold("tokens_contiguous", attention.concat_and_cache_mla, good, {"k_pe": torch.randn(2, 16)[:, :8]})


def norm(**changed: Any) -> dict[str, Any]:
    return {"x": torch.randn(3, 16), "weight": torch.randn(16), "output": torch.empty(3, 16)} | changed


def test_norm_contiguous():
    wide = torch.randn(3, 32)[:, :16]
    for call in (norms.rmsnorm, norms.gemma_rmsnorm):
        hold("norm_contiguous", call, norm(), {"x": wide}, {"output": wide.clone().T.contiguous().T})
    good = norm(y=torch.randn(3, 16), residual_output=torch.empty(3, 16))
    for call in (norms.add_rmsnorm, norms.gemma_add_rmsnorm):
        hold("norm_contiguous", call, good, {"x": wide}, {"y": wide}, {"residual_output": wide})
    hold("norm_contiguous", norms.rms_norm_gated, norm(z=torch.randn(3, 16), eps=1e-6), {"x": wide}, {"z": wide})


def test_norm_weight():
    half = {"x": torch.randn(3, 16).bfloat16(), "output": torch.empty(3, 16).bfloat16()}
    hold("norm_weight", norms.rmsnorm, norm(**half), {"weight": torch.randn(16).half()})
    norms.rmsnorm(**norm(**half, weight=torch.randn(16).bfloat16()))
    hold("norm_weight", norms.add_rmsnorm, norm(y=torch.randn(3, 16)), {"weight": torch.randn(16).bfloat16()})


def test_gated_norm_form():
    good = norm(z=torch.randn(3, 16), eps=1e-6, group_size=16)
    hold("gated_norm_form", norms.rms_norm_gated, good, {"group_size": 8}, {"weight": torch.randn(16).half()})


def test_rotary_contiguous():
    good = {
        "positions": torch.arange(3),
        "query": torch.randn(3, 64),
        "key": torch.randn(3, 32),
        "head_size": 32,
        "cos_sin_cache": torch.randn(8, 32),
    }
    slices = ({"query": torch.randn(3, 96)[:, :64]}, {"key": torch.randn(3, 96)[:, 64:]})
    hold("rotary_contiguous", elementwise.rotary_embedding, good | {"is_neox": True}, *slices)
    good |= {"positions": torch.arange(6).view(2, 3), "mrope_section": [6, 10]}
    hold("rotary_contiguous", elementwise.mrotary_embedding_neox, good, *slices)


def product(**changed: Any) -> dict[str, Any]:
    return {"x": torch.randn(3, 16), "w": torch.randn(8, 16), "out": torch.empty(3, 8)} | changed


def test_product_contiguous():
    slices = ({"x": torch.randn(3, 32)[:, :16]}, {"w": torch.randn(16, 8).T}, {"out": torch.empty(3, 16)[:, :8]})
    hold("product_contiguous", products.matmul, product(), *slices)
    eight = torch.ones(8, 16, dtype=torch.int8)
    good = {"out": torch.empty(8, 8), "a": eight, "b": eight.T.contiguous(), "bias": None}
    good |= {"scale_a": torch.ones(8), "scale_b": torch.ones(8)}
    hold("product_contiguous", products.cutlass_scaled_mm, good, {"b": eight.T})
    good = {"x": torch.randn(3, 16), "y": torch.empty(3, 16, dtype=torch.int8), "max": torch.empty(3, 1)}
    hold("product_contiguous", products.quant2d, good, {"x": torch.randn(3, 32)[:, :16]})
    index = {"sorted_tokens_num_lod": int32(0, 3), "sorted_tokens_idx": int32(0, 1, 2), "moe_topk": 1}
    good = index | {"x": torch.randn(3, 4), "weight": torch.randn(1, 5, 4), "y": torch.empty(3, 1, 5)}
    hold("product_contiguous", experts.moe_fc, good, {"weight": torch.randn(1, 4, 5).transpose(1, 2)})


def test_bias_float32():
    hold("bias_float32", products.matmul, product(bias=torch.randn(8)), {"bias": torch.randn(8).bfloat16()})


def words(columns: torch.Tensor, order: tuple[int, ...]) -> torch.Tensor:
    """``[rows, columns]`` of 0 to 15 packed into ``[rows, columns / 8]`` int32, in an order from the low end."""
    picked = columns.unflatten(-1, (-1, 8))[..., list(order)].long()
    packed = (picked << torch.arange(0, 32, 4)).sum(-1)
    return torch.where(packed >= 2**31, packed - 2**32, packed).to(torch.int32)


def test_awq_order():
    """A checkpoint's words give columns in disorder; with their nibbles reordered they give the weight."""
    nibbles, zero = torch.randint(16, (8, 16)), torch.randint(16, (2, 16))
    scales = torch.rand(2, 16).half()
    expected = (nibbles - zero.repeat_interleave(4, 0)) * scales.float().repeat_interleave(4, 0)
    checkpoint = (0, 2, 4, 6, 1, 3, 5, 7)
    reordered = tuple(checkpoint[index] for index in (4, 0, 5, 1, 6, 2, 7, 3))
    found = {}
    for name, order in (("checkpoint", checkpoint), ("reordered", reordered)):
        found[name] = torch.empty(8, 16, dtype=torch.float16)
        products.awq_dequantize(words(nibbles, order), scales, words(zero, order), found[name], 4, 0, 0)
    torch.testing.assert_close(found["reordered"].float(), expected.float(), rtol=1e-3, atol=1e-3)
    assert not torch.allclose(found["checkpoint"].float(), expected.float(), rtol=1e-3, atol=1e-3)


def test_awq_float16():
    packed = words(torch.randint(16, (8, 16)), products.COLUMNS)
    zeros, scale = words(torch.randint(16, (2, 16)), products.COLUMNS), torch.rand(2, 16).half()
    good = {"qweight": packed, "scales": scale, "zeros": zeros, "weight": torch.empty(8, 16).half()}
    good |= {"group_m": 4, "quant_type": 0, "align_type": 0}
    hold("awq_float16", products.awq_dequantize, good, {"weight": torch.empty(8, 16)})
    good = {"x": torch.randn(3, 8).half(), "w": packed, "scale": scale, "zeros": zeros, "group_size": 4}
    good |= {"out": torch.empty(3, 16).half(), "align_type": 0}
    hold("awq_float16", products.awq_gemm, good, {"x": torch.randn(3, 8).bfloat16()})


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


def test_schema_types():
    def accepted(x: torch.Tensor, size: int, scale: float = 1.0) -> None: ...

    def optional(x: torch.Tensor, bias: torch.Tensor | None) -> None: ...

    def listed(x: torch.Tensor, sizes: list[int]) -> None: ...

    for function in (optional, listed, accepted):
        function.__annotations__ = {name: eval(hint) for name, hint in function.__annotations__.items()}
    hold("schema_types", lambda function: hold_schema(function), {"function": accepted}, {"function": optional})
    with raises("schema_types"):
        hold_schema(listed)


def test_every_rule_has_its_test():
    tests = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {rule.name for rule in RULES} == tests - {"every_rule_has_its_test"}
    assert all(rule.sentence.endswith(".") and rule.source for rule in RULES)
