import json
import os
import subprocess
import sys

import pytest
import torch
from kunport_runtime.operators.implementation import Implementation
from kunport_runtime.operators.limit import Limit
from kunport_runtime.operators.policy import Policy, Rule
from kunport_runtime.operators.probe import Probes
from toy_operator import SCALE, Flaky, mine, multiply, world

CPU = torch.device("cpu")


def wrong(out, x, factor):
    out.copy_(x * factor * (1.01 if len(x) == 5 else 1))


def verdict(folder, function, *limits, dtype="float32"):
    return Probes(folder).verdict(SCALE, mine(function, *limits), dtype, CPU)


def test_what_is_right_is_trusted_and_remembered_on_disk(tmp_path):
    function = Flaky(multiply)
    probes = Probes(tmp_path)
    implementation = mine(function)
    assert probes.verdict(SCALE, implementation, "float32", CPU) == ""
    tried = function.calls
    assert tried == 4
    assert probes.verdict(SCALE, implementation, "float32", CPU) == ""
    assert verdict(tmp_path, function) == ""
    assert function.calls == tried
    (file,) = tmp_path.iterdir()
    document = json.loads(file.read_text())
    assert document["state"] == "tried"
    assert document["cases"] == 4
    assert document["subject"]["operator"] == "scale"
    assert document["subject"]["torch"] == torch.__version__
    assert verdict(tmp_path, function, dtype="bfloat16") == ""
    assert function.calls == 2 * tried


def test_wrong_numbers_are_found_and_named_and_remembered(tmp_path):
    reason = verdict(tmp_path, wrong)
    assert "5 rows" in reason
    assert "times the tolerance" in reason
    assert verdict(tmp_path, lambda **_: pytest.fail("known to be wrong")) == reason


def test_what_raises_is_not_trusted(tmp_path):
    function = Flaky(multiply)
    function.error = RuntimeError("does not compile")
    assert verdict(tmp_path, function) == "2 rows: RuntimeError: does not compile"


def test_what_cannot_be_imported_is_not_trusted_and_nothing_is_kept(tmp_path):
    missing = Implementation("scale", "mine", "no_such_module:scale")
    assert "ModuleNotFoundError" in Probes(tmp_path).verdict(SCALE, missing, "float32", CPU)
    assert not list(tmp_path.iterdir())


def test_cases_beyond_its_limits_are_not_asked_of_it(tmp_path):
    assert verdict(tmp_path, wrong, Limit("rows", maximum=4)) == ""
    assert "none of the contract's cases" in verdict(tmp_path / "other", wrong, Limit("rows", maximum=1))


def test_a_process_that_died_in_a_probe_is_not_followed(tmp_path):
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    assert verdict(tmp_path, multiply) == ""
    (file,) = tmp_path.iterdir()
    file.write_text(json.dumps({"subject": {}, "state": "running", "process": int(ended.stdout)}))
    assert verdict(tmp_path, multiply) == "a process ended while it was tried"
    file.write_text(json.dumps({"subject": {}, "state": "running", "process": os.getpid()}))
    assert verdict(tmp_path, multiply) == "", "another that is at it tries for itself"


def test_an_interpreter_is_asked_for_a_few_cases_only(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    function = Flaky(multiply)
    assert verdict(tmp_path, function) == ""
    assert function.calls == 3


def test_nothing_is_tried_while_a_graph_is_captured(tmp_path, monkeypatch):
    function = Flaky(multiply)
    monkeypatch.setattr("kunport_runtime.operators.probe.capturing", lambda device: True)
    assert verdict(tmp_path, function) == "it was not tried before the graph was captured"
    monkeypatch.undo()
    assert verdict(tmp_path, function) == ""
    monkeypatch.setattr("kunport_runtime.operators.probe.capturing", lambda device: True)
    assert verdict(tmp_path, function) == "", "what is known needs no trial"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"state": "tried"}', '{"state": "running", "process": "x"}'])
def test_a_file_that_cannot_be_read_is_written_anew(tmp_path, text):
    assert verdict(tmp_path, multiply) == ""
    (file,) = tmp_path.iterdir()
    file.write_text(text)
    assert verdict(tmp_path, multiply) == ""
    assert json.loads(file.read_text())["state"] == "tried"
    assert list(tmp_path.iterdir()) == [file], "no half-written file is left"


def test_a_place_that_cannot_be_written_costs_only_the_memory(tmp_path):
    (tmp_path / "file").touch()
    assert verdict(tmp_path / "file", multiply) == ""


def test_the_place_is_the_environments(tmp_path, monkeypatch):
    monkeypatch.setenv("KUNPORT_CACHE", str(tmp_path))
    assert Probes().folder == tmp_path / "probes"
    monkeypatch.delenv("KUNPORT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Probes().folder == tmp_path / "kunport" / "probes"


def test_the_dispatcher_takes_a_kernel_with_wrong_numbers_out_of_service(tmp_path):
    dispatcher, account = world(tmp_path, mine(wrong))
    x = torch.ones(5, 4)
    assert torch.equal(dispatcher.call("scale", x=x), 2 * x)
    (record,) = account.records()
    assert record.provider == "torch"
    assert "times the tolerance" in record.skipped["mine"]
    assert len(account.failures) == 1
    trusting, account = world(tmp_path, mine(wrong), policy=Policy(Rule(), probe=False))
    assert not torch.equal(trusting.call("scale", x=x), 2 * x)
