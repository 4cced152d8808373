"""Evidence written and replayed through the command line, with the real model and the real engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from checkpoints import write_adapter
from kunport.cli.command import main

pytestmark = pytest.mark.engine

CODE = "from vllm.model_executor.models.llama import LlamaForCausalLM as Native\nclass LlamaForCausalLM(Native): pass\n"
FAULT = """
    def load_weights(self, weights):
        loaded = super().load_weights(weights)
        self.model.norm.variance_epsilon = 1e-2
        return loaded
"""


def test_a_replay_says_the_same_until_something_is_altered(
    tmp_path: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    adapter, folder = write_adapter(tmp_path / "llama", code=CODE), tmp_path / "evidence"
    assert main(["validate", str(adapter), "--checkpoint", str(checkpoint), "--evidence", str(folder)]) == 0
    capsys.readouterr()
    assert main(["validate", "--replay", str(folder), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["identical"]
    assert found["outputs"]["compared"] == 8 * 3 + 1 + 2 + 4 + 8

    (folder / "adapter/model.py").write_text(CODE.replace(" pass\n", FAULT))
    assert main(["validate", "--replay", str(folder)]) == 1
    printed = capsys.readouterr().out
    assert "Not confirmed: the folder is not what was written. It says pass; its contents now: fail." in printed
    assert "adapter/model.py" in printed
    assert "outputs/batch8.0.npz: differs by at most" in printed
