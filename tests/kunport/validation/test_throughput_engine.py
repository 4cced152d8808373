"""The speed comparison, with two real engines that take turns."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkpoints import write_adapter
from kunport.errors import KunportError
from kunport.validation.report import RanClass, Stage
from kunport.validation.throughput import Side, Throughput, compare_throughput

ADAPTER = """
from vllm.model_executor.models.llama import LlamaForCausalLM as Native


class LlamaForCausalLM(Native):
    pass
"""


@pytest.mark.engine
def test_both_sides_take_turns(tmp_path: Path, checkpoint: Path) -> None:
    adapter = write_adapter(tmp_path / "llama", code=ADAPTER)
    seen: list[Stage] = []
    result = compare_throughput(
        adapter, checkpoint, requests=3, prompt_tokens=4, tokens=5, rounds=1, repetitions=2, on_stage=seen.append
    )
    assert Path(result.adapter.ran.file) == (adapter / "model.py").resolve()
    assert result.native.ran.module == "vllm.model_executor.models.llama"
    for side in (result.adapter, result.native):
        for speeds in (side.tokens_per_second, side.tokens_per_cpu_second):
            assert len(speeds) == 2
            assert min(speeds) > 0
    turns = [(stage.process, stage.name) for stage in seen if stage.status == "passed" and "turn" in stage.name]
    assert turns == [("adapter", "turn 0"), ("native", "turn 0"), ("native", "turn 1"), ("adapter", "turn 1")]


@pytest.mark.engine
def test_an_engine_that_does_not_start_is_one_sentence(tmp_path: Path, checkpoint: Path) -> None:
    adapter = write_adapter(tmp_path / "llama", code="raise RuntimeError('not today')")
    with pytest.raises(KunportError, match="The adapter engine failed in its stage 'load'"):
        compare_throughput(adapter, checkpoint, rounds=1, repetitions=1)


def test_ratios_are_of_neighbours() -> None:
    ran = RanClass("module", "Class", "file.py")
    ours, theirs = Side(ran, [90.0, 50.0, 30.0], [1.0, 2.0, 3.0]), Side(ran, [100.0, 50.0, 20.0], [2.0, 2.0, 2.0])
    result = Throughput(1, 1, 1, ours, theirs)
    assert result.ratios == [0.9, 1.0, 1.5]
    assert result.ratio == 1.0
    assert result.spread == (0.9, 1.5)
    assert result.cpu_ratios == [0.5, 1.0, 1.5]
    assert result.cpu_ratio == 1.0
