"""Rules of norms, rotations, products and schemas, each broken by a test of its name."""

from __future__ import annotations

from typing import Any

import torch
from kunport_runtime.simulator import elementwise, experts, norms, products
from kunport_runtime.simulator.schema import hold_schema
from rule_breaking import hold, int32, raises, wrong


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


def test_int8_maxima():
    """Whoever gives scales has results that are 127 times too small, twice."""
    wrong(
        "int8_matmul",
        "matmul",
        lambda call, **options: call(
            **options | {"x_pc_max": options["x_pc_max"] / 127, "w_pc_max": options["w_pc_max"] / 127}
        ),
    )


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


def test_schema_types():
    def accepted(x: torch.Tensor, size: int, scale: float = 1.0) -> None: ...

    def optional(x: torch.Tensor, bias: torch.Tensor | None) -> None: ...

    def listed(x: torch.Tensor, sizes: list[int]) -> None: ...

    for function in (optional, listed, accepted):
        function.__annotations__ = {name: eval(hint) for name, hint in function.__annotations__.items()}
    hold("schema_types", lambda function: hold_schema(function), {"function": accepted}, {"function": optional})
    with raises("schema_types"):
        hold_schema(listed)
