"""From a name to a proven adapter in the real engine: a fixed sample of the slice, chosen so that each mechanism is in it."""

from __future__ import annotations

from pathlib import Path

import pytest

import kunport

SAMPLE = {
    "gemma3_text": "1 + w norms, sandwich, norm per head, two rotary tables, windows by layer",
    "gpt_neox": "LayerNorm, parallel residual, QKV interleaved per head, partial rotation, another name of the head on disk",
    "phi3": "QKV and gate-up fused on disk",
    "cohere": "interleaved rotation, one norm for both branches, logit scale, tied head",
    "smollm3": "layers without rotation, no class in vLLM",
    "mixtral": "experts, other names on disk",
}


@pytest.mark.engine
@pytest.mark.parametrize("model", SAMPLE)
def test_model_is_ported_without_a_hand_edit(model: str, tmp_path: Path) -> None:
    port = kunport.port(model, tmp_path)
    assert port.report is not None, [f"{unknown.where} {unknown.reason}" for unknown in port.description.unknowns]
    assert port.report.passed, port.report.reasons
    assert port.report.engine is not None
    assert port.report.engine.ran.is_adapter
    assert port.report.graph is not None
    assert port.report.graph.max_relative <= 1e-6
    assert [batch.size for batch in port.report.batches] == [1, 2, 4, 8]
    assert max(batch.max_error for batch in port.report.batches) < 1e-4
    assert all(batch.greedy_equal == batch.greedy_total for batch in port.report.batches)
    assert {page.name for page in port.pages} >= {"report.json", "report.html"}
