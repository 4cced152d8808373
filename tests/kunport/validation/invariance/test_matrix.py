"""What becomes a row of the matrix, without an engine."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from checkpoints import write_adapter, write_checkpoint
from kunport.errors import KunportError
from kunport.validation import report
from kunport.validation.comparison import Observed
from kunport.validation.invariance import CELLS, Matrix, Row, run
from kunport.validation.invariance.cells import LENGTHS
from kunport.validation.processes.supervisor import Outcome
from kunport.validation.report import Stage


def outcome(ask: str, folder: Path, error: float = 0.0, **facts: int) -> Outcome:
    """A process that answered one ask; its answers, off by ``error``, lie in the folder."""
    (folder / ask).mkdir(parents=True)
    for request, length in enumerate(LENGTHS):
        ids = np.tile(np.arange(4), (length - 1, 1))
        steps = np.log(np.tile([0.4, 0.3, 0.2, 0.1], (2, 1))).astype(np.float32)
        tokens = np.zeros(2, np.int64)
        prompt = np.zeros((length - 1, 4), np.float32) - 1.0
        Observed(ids, prompt + error, np.tile(np.arange(4), (2, 1)), steps, tokens, tokens).save(
            folder / ask, 0, request
        )
    found = Outcome(complete=True, stages=[Stage("invariance.engine", ask, report.PASSED, 1.0)])
    found.facts = {"load": {"groups": 2}, ask: {"cached_tokens": 0, "preemptions": 0, "provider_calls": 0} | facts}
    return found


@pytest.fixture
def engines(monkeypatch, tmp_path):
    """Stands in for the engines: name of a cell's ask and settings -> what became of it."""
    jobs, answers = [], {}

    def follow(name, job, *, environment, work, **_):
        jobs.append((job, environment))
        key = "kept" if work.name == "kept" else work.name
        return answers.get(key, lambda folder: outcome(job["asks"][0], folder))(work)

    monkeypatch.setattr(import_module("kunport.validation.invariance.run"), "follow_module", follow)
    checkpoint = write_checkpoint(tmp_path / "checkpoint", vocab_size=64)
    adapter = write_adapter(tmp_path / "adapter")
    return jobs, answers, lambda *names: run(adapter, checkpoint, chosen=names)


@pytest.mark.parametrize(
    ("name", "answer", "verdict", "detail"),
    [
        ("page of 64", lambda folder: outcome("together", folder), "pass", ""),
        ("page of 64", lambda folder: outcome("together", folder, error=0.01), "fail", ""),
        ("preemption", lambda folder: outcome("together", folder), "not applicable", "nothing was preempted"),
        ("preemption", lambda folder: outcome("together", folder, preemptions=2), "pass", "2 preemptions"),
        (
            "tensor parallel 2",
            lambda folder: Outcome(stages=[Stage("x", "load", report.CRASHED, 1.0, "SIGSEGV")]),
            "fail",
            "SIGSEGV",
        ),
        (
            "tensor parallel 2",
            lambda folder: Outcome(refusal=KunportError("Heads do not divide.", "")),
            "not applicable",
            "Heads do not divide.",
        ),
    ],
)
def test_a_cell_passes_fails_or_does_not_apply(engines, name, answer, verdict, detail):
    _, answers, matrix = engines
    answers[name.replace(" ", "-")] = answer
    (row,) = matrix(name).rows
    assert row.verdict == verdict
    assert detail in row.detail
    assert verdict in row.line()


def test_settings_reach_the_engine_and_pages_are_for_each_group(engines):
    jobs, _, matrix = engines
    matrix("preemption", "provider vendor")
    kept, paged, vendor = jobs
    assert kept[0]["asks"] == ("together",)
    assert paged[0]["settings"]["num_gpu_blocks_override"] == 1 + 5 * 2
    assert vendor[0]["provider"] == "vendor"
    assert vendor[1]["KUNPORT_SIMULATOR"] == "1"
    assert "KUNPORT_SIMULATOR" not in paged[1]


def test_an_engine_that_does_not_answer_at_all_is_an_error(engines):
    _, answers, matrix = engines
    answers["kept"] = lambda folder: Outcome(stages=[Stage("x", "load", report.FAILED, 1.0, "no room")])
    with pytest.raises(KunportError, match="no room"):
        matrix("page of 64")


def test_the_matrix_fails_with_one_cell_and_adds_up():
    rows = [Row("a", "pass"), Row("b", "not applicable"), Row("c", "fail")]
    assert Matrix(rows[:2]).passed
    assert not Matrix(rows).passed
    assert Matrix(rows).summary() == "1 pass, 1 fail, 1 do not apply"
    assert Matrix(rows).as_dict()["rows"][1]["cell"] == "b"


def test_every_cell_has_a_name_of_its_own():
    assert len({cell.name for cell in CELLS}) == len(CELLS)
