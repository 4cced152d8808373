import subprocess
import sys
from importlib.metadata import entry_points

import pytest
from kunport_model_adapters.registry import register

IMPORTS_NOTHING = """
import sys
from kunport_model_adapters.registry import register
register()
print([name for name in ("torch", "vllm", "transformers", "kunport_model_adapters.discovery") if name in sys.modules])
"""


def test_vllm_finds_it():
    points = entry_points(group="vllm.general_plugins")
    assert points["kunport_adapters"].load() is register


@pytest.mark.parametrize("variable", [{}, {"KUNPORT_ADAPTER_PATH": ""}])
def test_without_the_variable_it_imports_nothing(variable):
    run = subprocess.run(
        [sys.executable, "-c", IMPORTS_NOTHING], env=variable, capture_output=True, text=True, check=True
    )
    assert run.stdout == "[]\n"
