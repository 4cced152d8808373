import json

import kunport.native_architectures as reading
import pytest
from kunport.cli.command import main


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in ("KUNPORT_DEVICE", "KUNPORT_SHIPPED_ADAPTERS", "KUNPORT_ADAPTER_PATH"):
        monkeypatch.delenv(name, raising=False)


def rows(capsys):
    assert main(["adapters", "--format", "json"]) == 0
    return {row["architecture"]: row for row in json.loads(capsys.readouterr().out)["adapters"]}


def test_on_vllms_own_platform_none_is_registered(capsys):
    assert not any(row["registered"] for row in rows(capsys).values())


def test_on_kunports_platform_those_that_vllm_has_no_class_for_are(capsys, monkeypatch):
    monkeypatch.setenv("KUNPORT_DEVICE", "cpu")
    found = rows(capsys)
    assert found["GPTNeoXForCausalLM"]["registered"]
    assert found["GPTNeoXForCausalLM"]["origin"] == "shipped"
    assert all(row["registered"] != row["shadows"] for row in found.values())


def test_a_shadow_is_said_to_be_one(capsys, monkeypatch):
    monkeypatch.setattr(reading, "native_architectures", lambda: frozenset({"GPTNeoXForCausalLM"}))
    monkeypatch.setenv("KUNPORT_SHIPPED_ADAPTERS", "new")
    assert not rows(capsys)["GPTNeoXForCausalLM"]["registered"]
    monkeypatch.setenv("KUNPORT_SHIPPED_ADAPTERS", "all")
    assert main(["adapters"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("GPTNeoXForCausalLM")]
    assert lines[0].endswith("shipped: registered, in place of vLLM's class")


def test_without_vllm_nothing_is_known_of_shadows(monkeypatch):
    monkeypatch.setattr(reading, "find_spec", lambda name: None)
    assert reading.native_architectures() is None


def test_a_wrong_variable_is_one_sentence(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("KUNPORT_ADAPTER_PATH", str(tmp_path / "none"))
    assert main(["adapters"]) == 2
    assert "which is no folder" in capsys.readouterr().err
