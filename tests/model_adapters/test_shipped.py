"""The adapters that kunport comes with: what they are generated from still gives them, and who gets them."""

import os
import subprocess
import sys

import pytest
from kunport_model_adapters.discovery import SHIPPED, shipped_adapters
from kunport_model_adapters.errors import AdapterError
from kunport_model_adapters.registry import shipped_choice

import kunport

CHOOSE = "import sys; from kunport_model_adapters.registry import shipped_choice; print(shipped_choice(), 'vllm' in sys.modules)"


def texts(folder):
    return {path.name: path.read_text() for path in sorted(folder.iterdir()) if path.is_file()}


def test_each_is_what_its_source_gives(tmp_path):
    """Where this fails after a change of kunport: `python tools/ship_adapters.py`, and look at the difference."""
    shipped = shipped_adapters()
    assert len(shipped) >= 30
    different = []
    for adapter in shipped:
        folder = kunport.generate_adapter(kunport.analyze(adapter.folder.name), tmp_path)
        if texts(folder) != texts(adapter.folder):
            different.append(folder.name)
    assert different == []


def test_a_folder_is_named_by_its_model_type_and_no_architecture_has_two():
    adapters = shipped_adapters()
    assert [adapter.folder.name for adapter in adapters] == [adapter.manifest.model_type for adapter in adapters]
    assert len({adapter.manifest.architecture for adapter in adapters}) == len(adapters)
    assert {path.name for path in SHIPPED.iterdir()} - {"README.md", "__pycache__"} == {
        each.folder.name for each in adapters
    }


@pytest.mark.parametrize(
    ("variables", "choice"),
    [
        ({}, "none"),
        ({"KUNPORT_DEVICE": "cpu"}, "new"),
        ({"KUNPORT_DEVICE": "cpu", "KUNPORT_SHIPPED_ADAPTERS": "none"}, "none"),
        ({"KUNPORT_SHIPPED_ADAPTERS": " all "}, "all"),
    ],
)
def test_they_serve_on_kunports_platform_or_where_they_are_asked_for(monkeypatch, variables, choice):
    for name in ("KUNPORT_DEVICE", "KUNPORT_SHIPPED_ADAPTERS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert shipped_choice() == choice


def test_a_choice_that_is_none_is_refused_by_name(monkeypatch):
    monkeypatch.setenv("KUNPORT_SHIPPED_ADAPTERS", "some")
    with pytest.raises(AdapterError, match=r"KUNPORT_SHIPPED_ADAPTERS is 'some'\. Say one of new, all, none"):
        shipped_choice()


def test_the_choice_imports_nothing_of_vllm():
    environment = os.environ | {"KUNPORT_DEVICE": "cpu"}
    done = subprocess.run([sys.executable, "-c", CHOOSE], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["new", "False"]
