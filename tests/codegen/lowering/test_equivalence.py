"""A lowered decoder computes what its graph computes, whatever its norms, residuals, packings and layers are."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from decoders import Decoder, build
from hypothesis import given, settings
from hypothesis import strategies as st
from kunport.validation.executor import execute
from kunport_codegen.emission.model_file import model_file
from kunport_codegen.graph import Graph
from kunport_codegen.lowering import LoweredModel, lower
from kunport_codegen.recognition import recognize
from lowering.lowered_model import logits

pytestmark = pytest.mark.untraced

DECODERS = st.builds(
    Decoder,
    norm=st.sampled_from(("before", "after", "gemma", "layer", "bare", "odd")),
    residual=st.sampled_from(("pre", "post", "sandwich", "parallel", "shared")),
    projections=st.sampled_from(("separate", "fused", "grouped", "reversed")),
    gate=st.sampled_from(("separate", "fused", "swapped", "woven", "none")),
    activation=st.sampled_from(("silu", "gelu", "relu")),
    query_norm=st.sampled_from(("", "head")),
    windows=st.sampled_from(((False, False, False), (True, False, True), (True, True, True), (True, True, False))),
    plain=st.booleans(),
    rotated=st.sampled_from(((True, True, True), (True, False, True), (False, True, True))),
    spelling=st.sampled_from(("linear", "turned")),
    places=st.sampled_from(("", "counted", "summed", "cut", "waves")),
    repeats=st.sampled_from(("late", "early")),
    style=st.sampled_from(("half", "interleaved")),
    rotary_dim=st.sampled_from((2, 4)),
    kv_heads=st.sampled_from((1, 2, 4)),
    bias=st.booleans(),
    tied=st.booleans(),
    embedding_scale=st.booleans(),
    multiplier=st.booleans(),
    logits=st.sampled_from(("", "scale", "divide", "cap")),
)


def lowered(decoder: Decoder) -> tuple[Graph, LoweredModel]:
    graph = build(decoder)
    return graph, lower(graph, recognize(graph))


def state(graph: Graph) -> dict[str, torch.Tensor]:
    draw = np.random.default_rng(3)
    tensors = {
        path: torch.from_numpy(
            draw.standard_normal([getattr(size, "value", size) for size in parameter.shape], dtype=np.float32) * 0.5
        )
        for path, parameter in graph.parameters.items()
    }
    tensors.update({first: tensors[second] for first, second in graph.tied})
    return tensors


def assert_same(decoder: Decoder) -> None:
    graph, model = lowered(decoder)
    tensors = state(graph)
    ids = torch.from_numpy(np.random.default_rng(5).integers(0, 11, (3, 7)))
    expected = execute(graph, tensors, ids)
    torch.testing.assert_close(logits(model, tensors, ids), expected, rtol=1e-4, atol=1e-4)


@settings(max_examples=25, deadline=None)
@given(DECODERS)
def test_a_lowered_decoder_gives_the_graphs_logits(decoder: Decoder) -> None:
    assert_same(decoder)


@pytest.mark.parametrize(
    ("residual", "norm"),
    list(product(("pre", "post", "sandwich", "parallel", "shared", "single"), ("before", "layer"))),
)
def test_each_residual_skeleton(residual: str, norm: str) -> None:
    assert_same(Decoder(residual=residual, norm=norm))


@pytest.mark.parametrize(
    ("projections", "kv_heads"), list(product(("separate", "fused", "grouped", "reversed"), (1, 2, 4)))
)
def test_each_packing_of_query_key_and_value(projections: str, kv_heads: int) -> None:
    assert_same(Decoder(projections=projections, kv_heads=kv_heads, bias=True))


@pytest.mark.parametrize("spelling", ["addmm", "turned"])
def test_linear_layers_that_are_spelled_out_are_the_engines(spelling: str) -> None:
    decoder = Decoder(spelling=spelling, bias=True, gate="none")
    assert_same(decoder)
    _, model = lowered(decoder)
    assert not any(each.op in ("matmul", "addmm", "T") for each in model.opportunities)
    assert bool(model.weights.transposed) is (spelling == "addmm")


@pytest.mark.parametrize("places", ["counted", "summed", "cut", "waves"])
def test_each_way_to_count_tokens(places: str) -> None:
    assert_same(Decoder(places=places))


def test_heads_that_are_repeated_before_the_rotation_are_shared() -> None:
    decoder = Decoder(repeats="early", projections="grouped", kv_heads=2)
    assert_same(decoder)
    assert "num_kv_heads=self.qkv.num_kv_heads" in model_file(lowered(decoder)[1])


@pytest.mark.parametrize("gate", ["separate", "fused", "swapped", "woven", "none"])
def test_each_packing_of_gate_and_up(gate: str) -> None:
    assert_same(Decoder(gate=gate))


def test_a_norm_without_a_layer_is_a_kernel_in_one_class_for_all_its_sizes() -> None:
    decoder = Decoder(norm="odd", query_norm="head")
    assert_same(decoder)
    _, model = lowered(decoder)
    assert any(line.endswith("row-wise operators in one Triton kernel (tiny_norm_rows)") for line in model.fused)
    code = model_file(model)
    assert code.count("class TinyNorm(") == 1
    assert 'TinyNorm(vllm_config, size=config.head_dim, prefix=f"{prefix}.q_norm")' in code


def test_a_norm_over_all_heads() -> None:
    assert_same(Decoder(query_norm="full", norm="after", residual="post"))


def test_the_numbers_of_other_sizes_follow_the_configuration() -> None:
    """A model lowered under one configuration computes under another: no size is written as a number."""
    _, model = lowered(Decoder(kv_heads=2))
    other = build(replace(Decoder(kv_heads=4), windows=(False,) * 5, rotated=(True,) * 5))
    model.graph = other
    tensors = state(other)
    ids = torch.zeros((2, 4), dtype=torch.int64)
    torch.testing.assert_close(logits(model, tensors, ids), execute(other, tensors, ids), rtol=1e-4, atol=1e-4)
