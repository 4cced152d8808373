"""`validate` as a whole, with the real model and the real engine: what is right passes, what is planted is caught.

The adapters inherit vLLM's own class, so that the planted fault is all there is to find.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from checkpoints import write_adapter
from kunport.errors import KunportError
from kunport.validation import Report, Stage, validate
from transformers import LlamaForCausalLM

pytestmark = pytest.mark.engine

ADAPTER = """
import os
import torch
from vllm.model_executor.models.llama import LlamaForCausalLM as Native


class LlamaForCausalLM(Native):
    def load_weights(self, weights):
        loaded = super().load_weights(weights)
        {after_loading}
        return loaded

    def forward(self, input_ids, positions, *rest, **options):
        {before_forward}
        return super().forward(input_ids, positions, *rest, **options)
"""


def run(tmp_path: Path, checkpoint: Path, code: str) -> tuple[Report, list[Stage]]:
    seen: list[Stage] = []
    adapter = write_adapter(tmp_path / "llama", code=code)
    report = validate(adapter, checkpoint, batch_sizes=(1, 3), tokens=5, on_stage=seen.append)
    return report, seen


def planted(after_loading: str = "pass", before_forward: str = "pass") -> str:
    return ADAPTER.format(after_loading=after_loading, before_forward=before_forward)


def test_an_adapter_that_is_right_passes(tmp_path: Path, checkpoint: Path) -> None:
    report, seen = run(tmp_path, checkpoint, planted())
    assert report.passed, report.reasons
    assert [(batch.size, batch.greedy_equal, batch.greedy_total) for batch in report.batches] == [
        (1, 5, 5),
        (3, 15, 15),
    ]
    assert report.max_error is not None
    assert 0 < report.max_error < 2e-5
    assert report.engine is not None
    assert report.engine.ran.is_adapter
    assert Path(report.engine.ran.file) == (tmp_path / "llama" / "model.py").resolve()
    assert {"kunport", "python", "torch", "transformers", "vllm"} == set(report.versions)
    assert {"adapter", "checkpoint"} == set(report.digests)
    small, large = report.batches
    assert 0 < small.memory.live_bytes < large.memory.live_bytes
    assert large.memory.resident_bytes is not None
    assert large.memory.resident_bytes > 100 << 20
    ended = {(stage.process, stage.name) for stage in seen if stage.status == "passed"}
    assert {("reference", "greedy"), ("engine", "log-probabilities, batch 3"), ("kunport", "compare")} <= ended
    assert [stage.status for stage in report.stages] == ["passed"] * len(report.stages)


@pytest.mark.parametrize(
    ("code", "reason", "module"),
    [
        (
            planted("for layer in self.model.layers: layer.input_layernorm.variance_epsilon = 1e-5"),
            "log-probabilities differ",
            "model.layers.0.input_layernorm",
        ),
        (planted("self.model.norm.weight.data[3] = float('nan')"), "are not finite", "model.norm"),
    ],
    ids=["epsilon", "NaN weight"],
)
def test_a_planted_fault_fails_in_every_batch_and_is_located(
    tmp_path: Path, checkpoint: Path, code: str, reason: str, module: str
) -> None:
    report, _ = run(tmp_path, checkpoint, code)
    assert not report.passed
    for size in (1, 3):
        assert any(each.startswith(f"Batch of {size}: ") and reason in each for each in report.reasons), report.reasons
    assert report.modules is not None
    assert report.modules.fault is not None
    assert report.modules.fault.module == module
    assert not report.modules.disturbed
    assert report.modules.points > 20
    assert any(each.startswith(f"It starts in {module} (RMSNorm): ") for each in report.reasons)


def test_in_bfloat16_what_is_right_is_as_precise_as_the_reference(tmp_path: Path, checkpoint: Path) -> None:
    adapter = write_adapter(tmp_path / "llama", code=planted())
    report = validate(adapter, checkpoint, batch_sizes=(3,), tokens=3, dtype="bfloat16")
    assert report.passed, report.reasons
    assert report.modules is not None
    assert 0.5 < report.modules.ratio <= 1.2
    assert report.modules.reference_error > 1e-3  # it did run in bfloat16
    assert report.modules.divergence < 1e-2


def test_an_adapter_whose_class_did_not_run_fails(tmp_path: Path, checkpoint: Path) -> None:
    code = "from vllm.model_executor.models.llama import LlamaForCausalLM as LlamaForCausalLM\n"
    report, _ = run(tmp_path, checkpoint, code)
    assert len(report.reasons) == 1
    assert report.reasons[0].startswith("The adapter did not run: the engine used LlamaForCausalLM of vllm.model_exec")


def test_a_crash_of_the_engine_is_a_line_with_its_stage(tmp_path: Path, checkpoint: Path) -> None:
    # The start-up runs are longer than any request, hence the exact length: prompt 0, the only one of batch 1.
    report, _ = run(tmp_path, checkpoint, planted(before_forward="if len(input_ids) == 23: os.abort()"))
    assert not report.passed
    crashed = [stage for stage in report.stages if stage.status == "crashed"]
    assert [stage.process for stage in crashed] == ["engine"]
    assert "SIGABRT" in crashed[0].detail
    assert any(repr(crashed[0].name) in reason for reason in report.reasons)
    assert report.logs["engine"]
    assert "reference" not in report.logs


def test_a_checkpoint_that_lacks_a_tensor_is_refused_and_the_engine_stopped(tmp_path: Path, checkpoint: Path) -> None:
    broken = tmp_path / "broken"
    model = LlamaForCausalLM.from_pretrained(checkpoint)
    state = {name: tensor for name, tensor in model.state_dict().items() if "layers.1.mlp.up" not in name}
    model.save_pretrained(broken, state_dict=state)
    seen: list[Stage] = []
    with pytest.raises(KunportError, match=r"lacks: model\.layers\.1\.mlp\.up_proj\.weight"):
        validate(None, broken, batch_sizes=(1,), tokens=2, on_stage=seen.append)
    assert seen[-1].process == "engine"
    assert seen[-1].status in ("stopped", "failed")
