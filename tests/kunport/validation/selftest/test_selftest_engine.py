"""A fixed sample of planted bugs through the real engine and the real model: all caught, all named."""

from __future__ import annotations

from pathlib import Path

import pytest
from kunport.validation.selftest import run
from kunport.validation.selftest.subjects import generated

pytestmark = pytest.mark.engine

SAMPLE = (
    "epsilon",
    "norms_exchanged",
    "rope_base",
    "key_not_rotated",
    "attention_scale",
    "key_value_heads_reversed",
    "key_and_value_exchanged",
    "gate_and_up_exchanged",
    "router_not_renormalized",
    "shared_expert_missing",
    "last_layer_missing",
    "head_tied_by_mistake",
    "norm_weight_not_loaded",
    "cache_slot_off_by_one",
    "prefix_reused",
)


def test_a_sample_of_bugs_is_caught_and_named_and_nothing_found_in_what_is_right(tmp_path: Path) -> None:
    table = run(generated(["qwen2_moe"], tmp_path), chosen=SAMPLE)
    assert not table.alarms
    assert not table.missed
    assert [(row.kind, row.named, row.wanted) for row in table.misnamed] == []
    assert {row.kind for row in table.planted} == set(SAMPLE)
    started = next(row for row in table.planted if row.kind == "norm_weight_not_loaded")
    assert started.checks == ("start",)
