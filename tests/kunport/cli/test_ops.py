"""`kunport ops` in this process: the runtime's own tests say whether the choices are right."""

import json

import pytest
from kunport.cli import main, ops_bench
from kunport_runtime.bench import measuring
from kunport_runtime.operators.account_files import write_account
from kunport_runtime.operators.accounting import Decision, Failure, Ledger, layer
from kunport_runtime.operators.dispatch import dispatcher
from kunport_runtime.operators.registry import Registry

OWN = '''"""Doubles, wrongly where there are many rows.

Only an example.
"""
import dataclasses
from kunport_runtime.operators.contract import Case, Contract, reads, writes
from kunport_runtime.operators.implementation import Implementation
from kunport_runtime.operators.tolerance import rounded

def cases(draw):
    for rows in (2, 9):
        yield Case(f"{rows} rows", {"out": draw.poison(rows, 4), "x": draw.normal(rows, 4)})

def reference(out, x):
    out.copy_(2 * x)

def careless(out, x):
    out.copy_(2 * x)
    if len(x) > 5:
        out[5] = 0

CONTRACT = Contract("double", (writes("out", "rows, size", like="x"), reads("x", "rows, size")), reference, cases, rounded(1), "x")
IMPLEMENTATIONS = (Implementation("double", "mine", careless), Implementation("double", "better", reference))
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A file with an operator, a registry that forgets it again, and a cache of its own."""
    path = tmp_path / "double.py"
    path.write_text(OWN)
    registry = Registry()
    monkeypatch.setattr("kunport_runtime.operators.registry.registry", registry)
    monkeypatch.setattr(dispatcher, "registry", registry)
    monkeypatch.setenv("KUNPORT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUNPORT_DEVICE", raising=False)
    dispatcher.forget()
    yield str(path)
    dispatcher.forget()


def answer(capsys, *arguments):
    status = main(["ops", *arguments, "--format", "json"])
    return status, json.loads(capsys.readouterr().out)


def test_the_list_says_who_and_why_and_tries_nothing(own, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("KUNPORT_DEVICE", "kunlun")
    status, listed = answer(capsys, "--operators-file", own, "--device", "cpu")
    assert status == 0
    assert listed["device"] == "cpu"
    lines = {each["operator"]: each for each in listed["operators"]}
    assert lines["double"] == {"operator": "double", "family": "own", "provider": "mine", "tried": False, "others": {}}
    assert lines["rwkv"]["provider"] == "triton"
    assert "vendor" in lines["rwkv"]["others"]
    assert lines["linear"]["provider"] == "torch"
    assert not (tmp_path / "cache").exists()
    assert main(["ops", "--device", "cpu", "--dtype", "bfloat16"]) == 0
    text = capsys.readouterr().out
    assert "On cpu, in bfloat16:" in text
    assert "  double                    mine (not tried yet)\n" in text
    assert "not vendor: " in text


def test_probing_finds_what_is_wrong_and_the_list_knows_it_then(own, capsys):
    status, tried = answer(capsys, "probe", "double", "--operators-file", own)
    assert status == 1
    reasons = {each["provider"]: each["reason"] for each in tried["trials"]}
    assert reasons["better"] == ""
    assert "9 rows: out is" in reasons["mine"]
    _, listed = answer(capsys)
    (line,) = [each for each in listed["operators"] if each["operator"] == "double"]
    assert line["provider"] == "better"
    assert line["tried"]
    assert "9 rows" in line["others"]["mine"]
    assert main(["ops", "probe", "double"]) == 1
    text = capsys.readouterr().out
    assert "better double: right\n" in text
    assert text.endswith("1 of 2 implementations are right on cpu, in float32.\n")


def test_checking_runs_every_case(own, capsys):
    status, checked = answer(capsys, "check", "double", "--provider", "mine", "--operators-file", own)
    assert status == 1
    assert [bool(each["fault"]) for each in checked["cases"]] == [False, True]
    assert main(["ops", "check", "double", "--provider", "mine"]) == 1
    assert "WRONG, out is" in capsys.readouterr().out
    assert main(["ops", "check", "double", "--provider", "better", "--seed", "3", "--dtype", "float16"]) == 0
    text = capsys.readouterr().out
    assert "0.000 of the tolerance    9 rows\n" in text
    assert "Tolerance: 0.00049 + 0.00049 of the value" in text


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["check", "nothing"], "There is no operator nothing."),
        (["check", "rms_norm", "--provider", "nobody"], "nobody has no rms_norm. It is implemented by"),
        (["check", "rms_norm", "--device", "cuda"], "There is no accelerator"),
        (["probe", "nothing"], "There is no operator nothing."),
        (["--operators-file", "nothing.py"], "nothing.py is no file."),
        (["bench"], "There is no accelerator that torch can use"),
        (["bench", "rowz"], "There is no group rowz."),
        (["tune"], "There is no accelerator that torch can use"),
        (["tune", "rows", "rowz"], "There is no group rowz."),
    ],
)
def test_a_wrong_call_is_one_line_with_the_cure(own, capsys, monkeypatch, arguments, problem):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["ops", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"kunport: {problem}")
    assert err.count("\n") == 1


def test_groups_are_those_that_are_measured():
    assert ops_bench._GROUPS == measuring.GROUPS


def test_the_account_of_a_server_is_read(tmp_path, capsys):
    first, second = Ledger(), Ledger()
    fallback = Decision("linear", "torch", print, (("triton", "it has no linear"),))
    for ledger, name in ((first, "model.layers.10"), (first, "model.layers.2"), (second, "model.layers.10")):
        with layer(name):
            ledger.count(Decision("rms_norm", "triton", print, ()))
            ledger.count(fallback)
    write_account(first, tmp_path).rename(tmp_path / "process-1.json")
    write_account(second, tmp_path)
    status, account = answer(capsys, "account", str(tmp_path))
    assert status == 0
    assert {(each["layer"], each["operator"], each["count"]) for each in account["records"]} == {
        (name, operator, count)
        for name, count in (("model.layers.2", 1), ("model.layers.10", 2))
        for operator in ("rms_norm", "linear")
    }
    second.failures.append(Failure("rms_norm", "triton", "float32", "out of registers"))
    write_account(second, tmp_path)
    assert main(["ops", "account", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("model")] == ["model.layers.2", "model.layers.10"]
    assert "         2 linear                    torch    not triton: it has no linear" in lines
    assert lines[-2:] == [
        "6 calls, 3 of them not on the first provider.",
        "FAILED: triton's rms_norm in float32: out of registers",
    ]


def test_a_folder_without_accounts_is_named(tmp_path, capsys):
    assert main(["ops", "account", str(tmp_path)]) == 2
    assert "holds no account. Run the server with KUNPORT_OPS_ACCOUNT=" in capsys.readouterr().err
    (tmp_path / "process-1.json").write_text("[]")
    assert main(["ops", "account", str(tmp_path)]) == 2
    assert "process-1.json is no account. Remove it." in capsys.readouterr().err


def test_a_wrong_policy_is_one_line_with_the_cure(own, capsys, monkeypatch):
    monkeypatch.setenv("KUNPORT_OPS_POLICY", 'order = ["tritn"]')
    monkeypatch.delitem(dispatcher.__dict__, "policy", raising=False)
    assert main(["ops"]) == 2
    assert "The policy names the provider tritn, which does not exist." in capsys.readouterr().err
