"""Many models: a row for each whatever it is, kept until something that it was read from changes."""

import json
import os
import time

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kunport.cli import main
from kunport.survey import Row, cache, modeling_files, run, survey
from kunport.survey.row import read_row
from kunport.survey.table import SCHEMA

import kunport

DECODER = """from torch import nn


class {name}ForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed = nn.Embedding(16, 8)
        self.head = nn.Linear(8, 16, bias=False)

    def forward(self, input_ids):
        return self.head(self.embed(input_ids){extra})
"""


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("KUNPORT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path):
    """Models that are understood, not understood, in error, and none at all."""
    place = tmp_path / "models"
    for name, text in (
        ("a", DECODER.format(name="A", extra="")),
        ("b", DECODER.format(name="B", extra=".conj_physical_everywhere()")),
        ("c", "class C(:\n"),
        ("d", "from torch import nn\n\n\nclass DModel(nn.Module):\n    pass\n"),
    ):
        (place / name).mkdir(parents=True)
        (place / name / f"modeling_{name}.py").write_text(text)
    return place


def test_files_are_found_in_order_and_links_do_not_lead_out(folder, tmp_path):
    (tmp_path / "modeling_outside.py").write_text("")
    (folder / "a/modeling_link.py").symlink_to(tmp_path / "modeling_outside.py")
    (folder / "loop").symlink_to(folder)
    (folder / "a/other.py").write_text("")
    (folder / "a/modeling_dangling.py").symlink_to(folder / "nowhere")
    files, others = modeling_files(folder)
    assert [path.name for path in files] == [f"modeling_{name}.py" for name in "abcd"]
    assert others == 1


@pytest.mark.parametrize("place", ["nowhere", "empty"])
def test_a_folder_without_any_is_refused(tmp_path, place):
    (tmp_path / "empty").mkdir()
    with pytest.raises(kunport.KunportError):
        modeling_files(tmp_path / place)


def test_every_file_has_a_row_and_the_second_time_it_comes_from_the_cache(folder, capsys, monkeypatch):
    assert main(["analyze", "--all", str(folder), "--format", "json"]) == 1
    first = json.loads(capsys.readouterr().out)
    jsonschema.validate(first, json.loads(SCHEMA.read_text()))
    assert [row["verdict"] for row in first["rows"]] == [
        "partly understood",
        "not understood",
        "not analysed",
        "not analysed",
    ]
    assert first["rows"][0]["opaque"] >= 5
    assert first["rows"][0]["reason"].startswith("embedding.")
    assert "modeling_b.py:11: " in first["rows"][1]["reason"]
    assert "modeling_c.py" in first["rows"][2]["reason"]
    monkeypatch.setattr(run, "_read", lambda models, *_: iter([Row(model, "failed") for model in models]))
    assert main(["analyze", "--all", str(folder), "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out) == first
    (folder / "b/modeling_b.py").write_text(DECODER.format(name="B", extra=""))
    verdicts = [row.verdict for row in survey([str(path) for path in modeling_files(folder)[0]])]
    assert verdicts == ["partly understood", "failed", "not analysed", "not analysed"]


def test_several_models_are_lines_and_totals(folder, capsys):
    models = [str(folder / f"{name}/modeling_{name}.py") for name in "ac"]
    assert main(["analyze", *models]) == 0
    out = capsys.readouterr().out
    assert out.startswith("partly understood  AForCausalLM")
    assert out.endswith("2 models: 1 partly understood, 1 not analysed\n")
    assert main(["analyze", *models, "--fail-on", "error"]) == 1
    assert main(["analyze", *models, "--fail-on", "opaque"]) == 1
    assert main(["analyze", "llama", "qwen2", "--fail-on", "opaque"]) == 0
    assert main(["analyze", *models, "--fail-on", "kernel"]) == 2
    assert main(["analyze", *models, "--format", "sarif"]) == 2
    assert main(["analyze"]) == 2


def test_a_name_that_is_no_model_is_a_wrong_call_and_the_others_are_answered(folder, capsys):
    assert main(["analyze", "nosuch", str(folder / "c/modeling_c.py"), "llama"]) == 2
    printed = capsys.readouterr()
    assert printed.out.endswith("3 models: 2 not analysed, 1 understood\n")
    assert printed.err.startswith("kunport: nosuch is no file")


def test_a_name_that_is_empty_is_a_wrong_call(capsys):
    assert main(["analyze", "llama", ""]) == 2
    assert main(["analyze", ""]) == 2
    assert capsys.readouterr().out == ""


def test_files_that_are_left_out_are_counted(folder, capsys):
    (folder / "a/nets.py").write_text("")
    (folder / "a/nets2.py").write_text("")
    assert main(["analyze", "--all", str(folder / "a")]) == 0
    printed = capsys.readouterr()
    assert printed.out.endswith("\n1 model: 1 partly understood\n")
    assert printed.err == "kunport: 2 other Python files are read only where a modeling_*.py imports them.\n"


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=40), st.integers(0, 400))
def test_a_damaged_cache_is_no_cache(folder, kept, damage, at):
    model = str(folder / "a/modeling_a.py")
    row = Row(model, "understood", sources={model: cache.digest(folder / "a/modeling_a.py")})
    cache.keep(row)
    assert cache.recall(model) == row
    (file,) = [path for path in kept.rglob("*") if path.is_file()]
    text = file.read_bytes()
    file.write_bytes(text[:at] + damage + text[at + len(damage) :])
    assert cache.recall(model) in (None, row)
    file.unlink()


def test_a_cache_that_cannot_be_written_is_no_error(folder, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KUNPORT_CACHE", str(tmp_path / "file"))
    assert [row.verdict for row in survey([str(folder / "a/modeling_a.py")])] == ["partly understood"]


def _die(model):
    if "die" in model:
        os._exit(1)
    if "hang" in model:
        time.sleep(60)
    return Row(model, "understood")


def _serve_badly(requests):
    while True:
        requests.send(_die(requests.recv()))


def test_a_process_that_dies_or_hangs_costs_one_row(monkeypatch):
    monkeypatch.setattr(run, "_serve", _serve_badly)
    rows = {row.model: row for row in survey(["a", "die", "b", "hang", "c"], processes=2, seconds=8.0)}
    assert {model for model, row in rows.items() if row.verdict == "understood"} == {"a", "b", "c"}
    assert "died" in rows["die"].reason
    assert "longer than 8 s" in rows["hang"].reason


def test_a_bug_of_ours_is_a_row(monkeypatch):
    def fail(_):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(kunport.api, "analyze", fail)
    row = read_row("llama")
    assert (row.verdict, "ZeroDivisionError: oops" in row.reason) == ("failed", True)
