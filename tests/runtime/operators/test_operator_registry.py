import importlib
import os
import sys
from types import ModuleType

import pytest
import torch
from kunport_runtime.operators.device import device_kind, fingerprint
from kunport_runtime.operators.errors import OperatorError
from kunport_runtime.operators.implementation import Implementation
from kunport_runtime.operators.registry import VARIABLE, Registry, load_operators
from toy_operator import SCALE, mine, multiply

FILE = """'''Doubles.'''
from toy_operator import SCALE, mine, multiply
CONTRACT = SCALE
IMPLEMENTATIONS = [mine(multiply)]
"""


def test_files_that_the_environment_names_are_registered(tmp_path, monkeypatch):
    paths = [tmp_path / "first.py", tmp_path / "second.py"]
    paths[0].write_text(FILE)
    paths[1].write_text(
        FILE.replace("CONTRACT = SCALE\n", "").replace("mine(multiply)", "mine(multiply, provider='b')")
    )
    monkeypatch.setenv(VARIABLE, os.pathsep.join(map(str, paths)))
    registry = Registry()
    assert registry.contract("scale").doc == "Doubles."
    assert registry.contracts()[-1].family == "own"
    assert list(registry.implementations("scale")) == ["mine", "b", "torch"]
    assert "b" in registry.providers()


def test_a_file_that_holds_no_operator_is_named(tmp_path):
    path = tmp_path / "empty.py"
    path.write_text("")
    with pytest.raises(OperatorError, match="neither a CONTRACT nor IMPLEMENTATIONS"):
        load_operators(path, Registry())
    with pytest.raises(OperatorError, match="is no file"):
        load_operators(tmp_path / "missing.py", Registry())
    (tmp_path / "text.txt").write_text(FILE)
    with pytest.raises(OperatorError, match="no Python file"):
        load_operators(tmp_path / "text.txt", Registry())


def test_nobody_else_is_the_reference():
    with pytest.raises(OperatorError, match="references"):
        Registry().register(mine(multiply, provider="torch"))


def test_a_provider_that_does_not_import_is_absent_with_the_reason(monkeypatch):
    module = "kunport_runtime.providers.triton.implementations"
    monkeypatch.setitem(sys.modules, module, None)
    registry = Registry()
    assert "triton" in registry.providers()
    assert "ModuleNotFoundError" in registry.absence("triton")
    assert list(registry.implementations("rms_norm")) == ["torch"]
    listed = ModuleType(module)
    listed.IMPLEMENTATIONS = [Implementation("rms_norm", "triton", "nowhere:rms_norm")]
    monkeypatch.setitem(sys.modules, module, listed)
    registry = Registry()
    assert registry.absence("triton") == ""
    assert list(registry.implementations("rms_norm")) == ["triton", "torch"]


def test_changed_source_is_another_implementation(tmp_path, monkeypatch):
    package = tmp_path / "some_kernels"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "launch.py").write_text("def scale(out, x, factor): out.copy_(x * factor)\n")
    (package / "kernel.py").write_text("A = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    implementation = Implementation("scale", "mine", "some_kernels.launch:scale")
    before = implementation.digest()
    assert implementation.digest() == before
    (package / "kernel.py").write_text("A = 2\n")
    importlib.import_module("kunport_runtime.operators.implementation")._digest.cache_clear()
    assert implementation.digest() != before


def test_a_contract_may_be_registered_in_the_process():
    registry = Registry()
    registry.register(SCALE)
    assert registry.contract("scale") is SCALE
    assert registry.implementations("scale")["torch"].load() is multiply


def test_the_kind_of_a_device_is_what_was_asked_for(monkeypatch):
    monkeypatch.setattr("kunport_activation.kunlun_is_present", lambda: False)
    monkeypatch.delenv("KUNPORT_DEVICE", raising=False)
    assert device_kind(torch.device("cpu")) == "cpu"
    monkeypatch.setenv("KUNPORT_DEVICE", "kunlun")
    assert device_kind(torch.device("cpu")) == "kunlun"
    known = fingerprint(torch.device("cpu"))
    assert known["kind"] == "kunlun"
    assert known["torch"] == torch.__version__
    assert all(isinstance(value, str) for value in known.values())
