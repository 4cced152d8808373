"""The floor that the analysis keeps on a fixed sample of the corpus, judged by the models themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kunport.oracle.__main__ import main
from kunport.oracle.children import label_cases

# Between them: learned, linear-bias, rotary and no positions; half and interleaved pairs; windows, caps, sinks and
# multipliers; fused, latent and separate projections; pre-norm, post-norm, sandwich and parallel layers; experts; state.
SAMPLE = (
    "bloom", "cohere", "deepseek_v3", "gemma2", "gpt2", "gpt_oss", "granite:multipliers", "mamba2", "olmo2", "phi3:partial",
)  # fmt: skip


def test_floor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SAMPLE, "--labels", str(tmp_path), "--floor", "1", "1", "--absent", "--opaque"]) == 0
    printed = capsys.readouterr().out
    assert "not labelled: gpt2 norm[ln_1].cast" in printed
    assert "\n0 silent misses" in printed
    kept = {json.loads(file.read_text())["case"] for file in tmp_path.rglob("*.json")}
    assert kept == set(SAMPLE)

    (file,) = tmp_path.rglob("gpt2.json")
    labels = json.loads(file.read_text())
    labels["model"]["values"] |= {"head.tied": False, "head.fins": 3}
    file.write_text(json.dumps(labels))
    assert main(["gpt2", "--labels", str(tmp_path), "--floor", "0.9", "0.9"]) == 1
    printed = capsys.readouterr().out
    assert "wrong: gpt2 model head.tied: False, stated True" in printed
    assert "missed: gpt2 model head.fins: 3" in printed
    assert "\n1 silent misses" in printed


def test_a_case_that_cannot_be_labelled_says_why(tmp_path: Path) -> None:
    (labels,) = label_cases(["no_such_case"], tmp_path)
    assert labels.problem.startswith("KunportError: No tiny model is known for 'no_such_case'")
    assert not labels.layers
