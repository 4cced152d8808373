"""A whole port, through the command line and in Python."""

import json

import jsonschema
import pytest
from kunport.cli import main
from kunport.porting import _tiny_case
from kunport.report.document import SCHEMA
from kunport.validation.report import PASSED, RUNNING

import kunport


@pytest.mark.parametrize("name", ["olmo2", "Olmo2ForCausalLM", "llama:llama3_rope"])
def test_a_name_stands_for_a_tiny_model(name):
    assert _tiny_case(name) is not None


def test_a_path_and_an_unknown_name_do_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "olmo2").mkdir()
    assert _tiny_case(tmp_path) is None
    assert _tiny_case("olmo2") is None
    assert _tiny_case("bert") is None


def test_a_model_that_the_engine_cannot_hold_is_not_ported(tmp_path):
    stages = []
    port = kunport.port("doge", tmp_path, on_stage=stages.append)
    assert not port.passed
    assert port.adapter is None
    assert port.description.unknowns
    assert stages[-1].name == "generate adapter"
    assert stages[-1].status == "failed"
    assert json.loads((tmp_path / "doge/report.json").read_text())["verdict"] == "not understood"


@pytest.mark.engine
def test_one_command_ports_a_model_and_another_validates_it_again(tmp_path, capsys):
    output = str(tmp_path / "adapters")
    assert main(["port", "Olmo2ForCausalLM", "--output", output, "--format", "json"]) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    assert document["verdict"] == "pass"
    names = [stage["name"] for stage in document["validation"]["stages"]]
    assert names[:4] == ["analyze", "make tiny checkpoint", "analyze checkpoint", "generate adapter"]
    assert "make tiny checkpoint" in err

    folder = tmp_path / "adapters/olmo2"
    assert {path.name for path in folder.iterdir()} >= {"adapter.json", "olmo2.py", "report.html", "report.json"}
    assert json.loads((folder / "report.json").read_text())["verdict"] == "pass"

    assert main(["validate", str(folder)]) == 0
    out, _ = capsys.readouterr()
    assert "PASS" in out
    assert f"Report: {folder}/report.html" in out.replace("\n", "")


@pytest.mark.engine
def test_a_port_in_python_tells_of_each_stage(tmp_path):
    checkpoint = kunport.tiny("llama", tmp_path / "llama")
    stages = []
    port = kunport.port(checkpoint, tmp_path / "adapters", on_stage=stages.append, batch_sizes=(1,), tokens=2)
    assert port.passed
    assert port.checkpoint == checkpoint
    assert port.report is not None
    assert [batch.size for batch in port.report.batches] == [1]
    assert {stage.status for stage in stages} == {RUNNING, PASSED}
    assert port.report.stages[0].name == "analyze"
