"""A model with recurrent layers and attention, served by kunport's layers over vLLM's state cache."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from kunport_model_adapters.discovery import VARIABLE

import kunport

pytestmark = pytest.mark.engine

SCENARIOS = ("reference", "plain", "pieces")
ENVIRONMENT = {
    "KUNPORT_DEVICE": "cpu",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_NO_USAGE_STATS": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
}


@pytest.fixture(scope="module")
def found(tmp_path_factory, untraced):
    """What each scenario found, by its name."""
    folder = tmp_path_factory.mktemp("states")
    checkpoint = kunport.tiny("bamba", folder / "bamba")
    adapter = kunport.generate_adapter(kunport.analyze(str(checkpoint)), folder / "adapters")
    command = [sys.executable, str(Path(__file__).with_name("scenarios.py")), str(checkpoint), str(folder), *SCENARIOS]
    own = {VARIABLE: str(adapter.parent), "KUNPORT_TEST_TRACED": os.environ.get("COVERAGE_PROCESS_START", "")}
    subprocess.run(command, check=True, env=untraced | ENVIRONMENT | own, cwd=folder)
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in SCENARIOS}


def check(answers, expected):
    assert [answer["tokens"] for answer in answers] == [answer["tokens"] for answer in expected]
    for answer, other in zip(answers, expected, strict=True):
        assert answer["logprobs"] == pytest.approx(other["logprobs"], abs=1e-4)


def test_it_answers_as_transformers_does(found):
    check(found["plain"]["greedy"], found["reference"])


def test_states_are_kept_by_counted_operators(found):
    ran = {(record["layer"], record["operator"]) for record in found["plain"]["operators"]}
    assert {
        ("model.layers.0.mamba.conv1d", "short_convolution"),
        ("model.layers.0.mamba.scan", "mamba2_scan"),
    } <= ran
    assert "paged_attention" in {operator for _, operator in ran}


def test_shared_prefixes_pieces_and_preemption_change_nothing(found):
    assert found["pieces"]["preemptions"] > 0
    assert any(answer["cached"] for answer in found["pieces"]["greedy"])
    check(found["pieces"]["greedy"], found["reference"])
    check(found["pieces"]["again"], found["reference"])
