"""Models whose layers keep a state: which operators their sources are, and what their adapters declare."""

from __future__ import annotations

import re
from typing import Any

import pytest
from kunport_codegen.emission import emit
from kunport_codegen.lowering import LoweringError

import kunport

TINY: dict[str, Any] = {"num_hidden_layers": 2, "hidden_size": 32, "vocab_size": 64}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48}
LINEAR = {f"linear_{name}": size for name, size in (("key_head_dim", 8), ("value_head_dim", 8))}
DELTA = {**HEADS, **LINEAR, "linear_num_value_heads": 4, "linear_num_key_heads": 2}
MIXED = ["linear_attention", "full_attention"]
SCAN = {"state_size": 8, "num_heads": 4, "head_dim": 16, "n_groups": 2, "chunk_size": 8}

# Model type -> its configuration, and how its adapter spells the states of a layer.
MODELS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "lfm2": ({**HEADS, "layer_types": ["conv", "full_attention"]}, ["ShortConvolution.states(config.hidden_size"]),
    "mamba": ({"state_size": 8}, ["ShortConvolution.states(", "Mamba1Scan.states(config.intermediate_size"]),
    "mamba2": (SCAN, ["Mamba2Scan.states(config.num_heads, config.head_dim, config.state_size)"]),
    "olmo_hybrid": ({**DELTA, "layer_types": MIXED}, ["*GatedDeltaRule.states("]),
    "recurrent_gemma": ({**HEADS, "num_hidden_layers": 3, "lru_width": 32}, ["RgLru.states(config.lru_width)"]),
    "rwkv": ({}, ["TokenShift.states(config.hidden_size)", "Rwkv.states(config.attention_hidden_size)"]),
}


@pytest.mark.parametrize("model", MODELS)
def test_a_source_s_recurrence_becomes_a_layer(model: str) -> None:
    config, spelled = MODELS[model]
    files = emit(kunport.analyze(model, config={**TINY, **config}).graph)
    text = next(text for name, text in files.items() if name.endswith(".py") and not name.startswith("test_"))
    assert all(each in text for each in spelled)
    made = re.findall(r"\*(\w+)\.states\(", text)
    assert all(
        re.search(rf"^from kunport_runtime.*\b{name}\b", text, re.MULTILINE) for name in [*made, "StatefulModel"]
    )
    assert "for t in range" not in text


def test_layers_put_together_differently_have_a_class_each() -> None:
    graph = kunport.analyze("lfm2", config={**TINY, **MODELS["lfm2"][0]}).graph
    text = emit(graph)["lfm2.py"]
    assert 'if config.layer_types[extract_layer_index(prefix)] == "full_attention"' in text
    assert "class Lfm2DecoderLayer(nn.Module)" in text
    assert "class Lfm2DecoderLayerSelfAttn(nn.Module)" in text


def test_a_loop_that_was_read_for_one_length_is_refused() -> None:
    layers = {"layer_types": MIXED, "num_local_experts": 4, "num_experts_per_tok": 2}
    with pytest.raises(LoweringError, match=r"linear mixer.*not proved"):
        emit(kunport.analyze("minimax", config={**TINY, **HEADS, **layers}).graph)
