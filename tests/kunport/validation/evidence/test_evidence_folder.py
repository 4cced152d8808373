"""A folder of evidence: complete, refused where something else stands, and every alteration seen."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from checkpoints import write_adapter, write_checkpoint
from kunport.errors import KunportError
from kunport.report.replay import lines
from kunport.validation.evidence import Replay, read_evidence, write_evidence
from kunport.validation.evidence.folder import altered, read_request
from kunport.validation.evidence.replay import Change, _differences
from sample_reports import sample_report


def written(tmp_path: Path) -> Path:
    """The evidence of a report, with a request and one answer."""
    adapter, checkpoint = write_adapter(tmp_path / "adapter"), write_checkpoint(tmp_path / "checkpoint")
    (adapter / "report.html").write_text("of another run")
    recordings = tmp_path / "recordings"
    recordings.mkdir(exist_ok=True)
    (recordings / "request.json").write_text(json.dumps({"prompts": [[1, 2]], "seed": 3}))
    np.save(recordings / "0.prompt.npy", np.ones(4, np.float32))
    report = sample_report()
    report.adapter, report.checkpoint = str(adapter), str(checkpoint)
    return write_evidence(
        tmp_path / "evidence",
        report,
        recordings,
        command=["kunport", "validate"],
        write_report=lambda folder: (folder / "report.json").write_text("{}"),
    )


def test_it_holds_what_a_replay_needs(tmp_path: Path) -> None:
    folder = written(tmp_path)
    evidence = read_evidence(folder)
    assert (evidence.verdict, evidence.max_error, evidence.architecture) == ("pass", 4e-6, "Olmo2ForCausalLM")
    assert read_request(folder) == {"prompts": [[1, 2]], "seed": 3}
    assert set(evidence.files) == {
        "adapter/adapter.json",
        "adapter/model.py",
        "checkpoint/config.json",
        "checkpoint/model.safetensors",
        "outputs/0.prompt.npy",
        "outputs/request.json",
        "report.json",
    }
    assert list(evidence.answers()) == ["outputs/0.prompt.npy"]
    assert not altered(folder, evidence)
    assert written(tmp_path) == folder  # in place of the older one


def test_every_alteration_is_seen(tmp_path: Path) -> None:
    folder = written(tmp_path)
    evidence = read_evidence(folder)
    for name in evidence.files:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content + b" ")
        assert altered(folder, evidence) == [name]
        (folder / name).unlink()
        assert altered(folder, evidence) == [name]
        (folder / name).write_bytes(content)
    (folder / "adapter/other.py").write_text("")
    assert altered(folder, evidence) == ["adapter/other.py"]


def test_what_stands_there_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence/thesis.txt").write_text("years")
    with pytest.raises(KunportError, match="holds something that is no evidence"):
        written(tmp_path)
    assert (tmp_path / "evidence/thesis.txt").read_text() == "years"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 1}', '{"format": 1, "surplus": 2}'])
def test_what_is_no_evidence_is_said_in_a_sentence(tmp_path: Path, text: str) -> None:
    if text:
        (tmp_path / "evidence.json").write_text(text)
    with pytest.raises(KunportError, match="is no evidence of a validation"):
        read_evidence(tmp_path)


def test_a_later_format_is_said(tmp_path: Path) -> None:
    folder = written(tmp_path)
    document = json.loads((folder / "evidence.json").read_text())
    (folder / "evidence.json").write_text(json.dumps(document | {"format": 2}))
    with pytest.raises(KunportError, match="format 2"):
        read_evidence(folder)


def test_how_far_answers_are_apart(tmp_path: Path) -> None:
    folder = written(tmp_path)
    now = tmp_path / "now"
    now.mkdir()
    answers = read_evidence(folder).answers()
    assert [each.now for each in _differences(folder, now, answers)] == ["not answered"]
    np.save(now / "0.prompt.npy", np.ones(4, np.float32))
    assert not list(_differences(folder, now, answers))
    np.save(now / "0.prompt.npy", np.array([1, 1, 1.5, np.nan], np.float32))
    assert [each.now for each in _differences(folder, now, answers)] == ["differs by at most 5.0e-01"]
    np.save(now / "0.prompt.npy", np.ones(3, np.float32))
    assert [each.now for each in _differences(folder, now, answers)] == ["other content"]


def test_the_verdict_in_words(tmp_path: Path) -> None:
    evidence = read_evidence(written(tmp_path))
    same = Replay(evidence, sample_report(), [], [], [], 1)
    assert list(lines(same)) == ["Confirmed: Olmo2ForCausalLM, pass, and all 1 answers are the same to the last bit."]
    moved = replace(same, outputs=[Change("outputs/0.prompt.npy", "recorded", "differs by at most 1.0e-07")])
    assert (moved.confirmed, moved.identical) == (True, False)
    assert list(lines(moved))[1:] == ["Answers", "  outputs/0.prompt.npy: differs by at most 1.0e-07"]
    edited = replace(same, altered=[f"adapter/{number}.py" for number in range(12)])
    assert not edited.confirmed
    assert next(lines(edited)).startswith("Not confirmed: the folder is not what was written.")
    assert list(lines(edited))[-1] == "  and 2 more"
    failing = sample_report()
    failing.reasons = ["Batch of 1: wrong."]
    turned = replace(same, report=failing, changes=[Change("verdict", "pass", "fail: Batch of 1: wrong.")])
    assert list(lines(turned)) == [
        "Not confirmed: the verdict was pass and is fail.",
        "Changed",
        "  verdict: pass -> fail: Batch of 1: wrong.",
    ]
    assert turned.as_dict()["verdict"] == {"then": "pass", "now": "fail"}
