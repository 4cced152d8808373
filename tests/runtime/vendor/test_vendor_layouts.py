"""What the contracts' cases leave out: every layout of a cache, large batches, experts elsewhere, forms of routing."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kunport_runtime.engine.attention.cache import pages as engine_pages
from kunport_runtime.operators.attention.paging import Batch
from kunport_runtime.operators.binding import bind
from kunport_runtime.operators.check import copy_arguments, distance
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.registry import registry
from kunport_runtime.providers.vendor import pages
from simulated_wheel import GENERATIONS, offered, simulated

LAYOUTS = ("heads first", "tokens first", "by turns", "engine", "engine on kunlun")


def caches(layout: str, draw: Draw, blocks: int, block_size: int, heads: int, dim: int) -> tuple[torch.Tensor, ...]:
    """Keys and values ``[blocks, block_size, heads, dim]`` in a layout."""
    if layout == "heads first":
        return tuple(draw.normal(2, blocks, heads, block_size, dim).transpose(2, 3))
    if layout == "by turns":
        return tuple(draw.normal(blocks, 2, heads, block_size, dim).transpose(2, 3).unbind(1))
    if layout.startswith("engine"):
        return engine_pages(
            draw.normal(blocks, block_size, heads, 2 * dim).transpose(1, 2), dim, layout == "engine on kunlun"
        )
    return tuple(draw.normal(2, blocks, block_size, heads, dim))


def error(name: str, implementation, arguments: dict[str, object]) -> float:
    """The largest error of the vendor's way, in units of the contract's tolerance."""
    contract = registry.contract(name)
    arguments = bind(contract, arguments).arguments
    expected, actual = copy_arguments(contract, arguments), copy_arguments(contract, arguments)
    contract.reference(**expected)
    implementation.load()(**actual)
    tolerance = contract.tolerance["float32"]
    return max(distance(actual[each], expected[each], tolerance) for each in contract.changed)


def attention(draw: Draw, batch: Batch, layout: str, **options: object) -> dict[str, object]:
    paging = batch.arguments(draw)
    keys, values = caches(layout, draw, batch.blocks, batch.block_size, 2, 32)
    tokens = batch.tokens
    return {
        "out": draw.poison(tokens, 4, 32),
        "query": draw.normal(tokens, 4, 32),
        "key_cache": keys,
        "value_cache": values,
        **paging,
        "scale": 0.3,
        **options,
    }


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 20)).map(lambda pair: (pair[0], sum(pair) or 1)),
        min_size=1,
        max_size=6,
    ).filter(lambda found: any(queries for queries, _ in found)),
    layout=st.sampled_from(LAYOUTS),
    generation=st.sampled_from(GENERATIONS),
    window=st.sampled_from((0, 1, 5)),
    sinks=st.booleans(),
    default_scale=st.booleans(),
)
def test_attention_of_any_batch_in_any_layout(lengths, layout, generation, window, sinks, default_scale):
    draw = Draw(torch.float32)
    with simulated(generation) as wheel:
        arguments = attention(draw, Batch("any", tuple(lengths), 8), layout, window=window)
        arguments["sinks"] = draw.normal(4) if sinks else None
        if default_scale:
            arguments["scale"] = 32**-0.5
        assert error("paged_attention", offered(wheel)["paged_attention"], arguments) <= 1


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("without_host", [False, True])
def test_a_decode_larger_than_the_vendor_takes_is_split(generation, without_host):
    batch = Batch("decode", tuple((1, 1 + index % 19) for index in range(70)), 8)
    with simulated(generation) as wheel:
        arguments = attention(Draw(torch.float32), batch, "heads first") | {"scale": 32**-0.5}
        if without_host:
            arguments |= {"query_start_loc_cpu": None, "seq_lens_cpu": None}
        assert error("paged_attention", offered(wheel)["paged_attention"], arguments) <= 1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_cache_is_written_in_any_layout(layout):
    draw = Draw(torch.float32)
    keys, values = caches(layout, draw, 4, 8, 2, 32)
    slots = draw.permutation(32)[:9]
    slots[4] = -1
    arguments = {
        "key_cache": keys,
        "value_cache": values,
        "key": draw.normal(9, 2, 32, spare=3),
        "value": draw.normal(9, 2, 32),
        "slot_mapping": slots,
    }
    with simulated() as wheel:
        assert error("cache_write", offered(wheel)["cache_write"], arguments) == 0


@pytest.mark.parametrize(("layout", "copied"), list(zip(LAYOUTS, (False, True, False, True, False), strict=True)))
def test_pages_are_copied_only_where_the_layout_is_not_the_vendors(layout, copied):
    draw = Draw(torch.float32)
    keys, values = caches(layout, draw, 4, 8, 2, 32)
    tables = torch.tensor([[1, 3], [2, 1 << 30]], dtype=torch.int32)
    k, v, t = pages.vendor_pages(keys, values, tables, torch.tensor([16, 3], dtype=torch.int32))
    assert (k.data_ptr() != keys.data_ptr()) == (v.data_ptr() != values.data_ptr()) == copied
    assert t.dtype == torch.int32
    assert torch.equal(t[0], tables[0] * 2) == (layout in ("by turns", "engine on kunlun"))


def test_experts_elsewhere_and_results_in_a_slice():
    draw = Draw(torch.float32)
    tokens, top_k, experts, hidden, size = 300, 2, 5, 24, 16
    ids = torch.stack([draw.permutation(experts, torch.int32)[:top_k] for _ in range(tokens)])
    ids[ids == 3] = -1
    arguments = {
        "out": draw.poison(tokens, hidden, spare=5),
        "x": draw.normal(tokens, hidden, spare=5),
        "gate_up_weight": draw.normal(experts, 2 * size, hidden, scale=0.2),
        "down_weight": draw.normal(experts, hidden, size, scale=0.2),
        "weights": draw.uniform(tokens, top_k),
        "ids": ids,
    }
    with simulated() as wheel:
        assert error("fused_experts", offered(wheel)["fused_experts"], arguments) <= 1


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize(
    ("scoring", "renormalize", "groups", "bias", "refused"),
    [
        ("softmax", True, 1, False, ""),
        ("softmax", False, 1, False, ""),
        ("sigmoid", True, 1, True, ""),
        ("sigmoid", True, 4, True, ""),
        ("softmax", True, 4, False, "groups is 4, above 1 (with softmax)"),
        ("softmax", True, 1, True, "correction_bias.given is True, not False (with softmax)"),
        ("sigmoid", False, 1, False, "renormalize is False, not True (with sigmoid)"),
    ],
)
def test_forms_of_routing(generation, scoring, renormalize, groups, bias, refused):
    draw = Draw(torch.float32)
    arguments = {
        "weights": draw.poison(7, 3, dtype=torch.float32),
        "ids": draw.poison(7, 3, dtype=torch.int32),
        "logits": draw.normal(7, 16),
        "correction_bias": draw.normal(16, scale=0.1) if bias else None,
        "scoring": scoring,
        "renormalize": renormalize,
        "groups": groups,
        "top_groups": max(1, groups // 2),
        "group_score": "maximum" if groups == 1 else "top_two_sum",
        "scale": 2.5,
    }
    with simulated(generation) as wheel:
        routing = offered(wheel)["expert_routing"]
        assert routing.refusal(bind(registry.contract("expert_routing"), arguments)) == refused
        if not refused:
            assert error("expert_routing", routing, arguments) <= 1
