"""The matrix through the real engine: an adapter that is right, and one that answers a lone token otherwise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kunport.cli import main
from kunport.validation.invariance import run
from kunport.validation.selftest.subjects import generated

pytestmark = pytest.mark.engine

CELLS = ("batch of one", "reversed order", "decode as prefill", "chunked prefill", "prefix cache hit", "preemption")


@pytest.fixture(scope="module")
def subject(tmp_path_factory):
    (found,) = generated(["qwen3"], tmp_path_factory.mktemp("invariance"))
    return found


def test_a_right_adapter_answers_the_same_and_each_cell_proves_that_it_was_done(subject, capsys):
    command = ["validate", str(subject.adapter), "--checkpoint", str(subject.checkpoint), "--invariance"]
    assert main([*command, "--format", "json", *(word for cell in CELLS for word in ("--cell", cell))]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["cell"], row["verdict"]) for row in rows] == [(cell, "pass") for cell in CELLS]
    assert all(row["error"] < 1e-5 and row["equal"] == row["total"] == 64 for row in rows)
    assert all(row["divergence"] < 1e-9 for row in rows)
    assert [row["detail"] for row in rows[-2:]] == ["96 cached tokens", "3 preemptions"]


def test_an_adapter_that_depends_on_the_batch_fails_where_the_batch_is_another(subject, tmp_path):
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    for file in Path(subject.adapter).iterdir():
        if file.is_file():
            (wrong / file.name).write_bytes(file.read_bytes())
    code = (wrong / "qwen3.py").read_text()
    before, last, after = code.rpartition("        return hidden_states\n\n")
    lone = last.replace("return hidden_states", "return hidden_states * (1.01 if len(positions) == 1 else 1.0)")
    (wrong / "qwen3.py").write_text(before + lone + after)
    matrix = run(wrong, subject.checkpoint, chosen=["batch of one", "reversed order"])
    assert [row.verdict for row in matrix.rows] == ["fail", "pass"]
    assert not matrix.passed


def test_a_cell_that_is_none_is_named(subject, capsys):
    command = ["validate", str(subject.adapter), "--checkpoint", str(subject.checkpoint), "--invariance"]
    assert main([*command, "--cell", "nonsense"]) == 2
    assert "batch of one" in capsys.readouterr().err
    assert main(["validate", "--invariance"]) == 2
