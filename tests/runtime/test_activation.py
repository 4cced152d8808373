"""Where kunport is installed and no device is asked for, vLLM is what it was."""

import json
import os
import subprocess
import sys

import kunport_activation as activation
import pytest

# What vLLM does in every process: it asks all platform plug-ins.
ASK = """
import json, sys
from importlib.metadata import entry_points
answers = {point.name: point.load()() for point in entry_points(group="vllm.platform_plugins")}
print(json.dumps({"answers": answers, "modules": sorted(sys.modules)}))
"""


def ask(**variables: str) -> dict[str, object]:
    environment = {name: value for name, value in os.environ.items() if name != activation.VARIABLE} | variables
    done = subprocess.run(
        [sys.executable, "-P", "-c", ASK], capture_output=True, text=True, check=True, env=environment
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_installed_and_not_active_it_answers_no_and_imports_nothing():
    answer = ask()
    assert answer["answers"] == {"kunport": None}
    modules = set(answer["modules"])
    assert not modules & {"torch", "vllm", "numpy", "transformers"}
    assert {name for name in modules if name.startswith("kunport")} == {"kunport_activation"}


def test_a_device_activates_it_without_torch():
    answer = ask(KUNPORT_DEVICE="cpu")
    assert answer["answers"] == {"kunport": activation.PLATFORM}
    assert "torch" not in answer["modules"]


def test_a_kunlun_is_found_by_driver_and_torch_together(tmp_path, monkeypatch):
    monkeypatch.delenv(activation.VARIABLE, raising=False)
    control = tmp_path / "xpuctrl"
    monkeypatch.setattr(activation, "_KUNLUN_CONTROL", control)
    monkeypatch.setattr(activation, "_VENDOR_TORCH", "json")
    assert activation.requested_device() is None
    control.touch()
    assert activation.requested_device() == "kunlun"
    monkeypatch.setattr(activation, "_VENDOR_TORCH", "no_such_torch")
    assert activation.requested_device() is None


@pytest.mark.parametrize(("value", "device"), [("cpu", "cpu"), (" CUDA ", "cuda"), ("", None), ("tpu", "tpu")])
def test_the_environment_names_a_device(monkeypatch, value, device):
    monkeypatch.setattr(activation, "kunlun_is_present", lambda: False)
    monkeypatch.setenv(activation.VARIABLE, value)
    assert activation.requested_device() == device
