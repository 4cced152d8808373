"""Generated adapters served through the vendor's operators, simulated: the tokens are those of the references."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kunport

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("engine")]

COMMON = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_NO_USAGE_STATS": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
}
RUNS = {
    "torch": {"KUNPORT_DEVICE": "cpu"},
    "vendor": {"KUNPORT_DEVICE": "kunlun", "KUNPORT_SIMULATOR": "1"},
    "earlier": {"KUNPORT_DEVICE": "kunlun", "KUNPORT_SIMULATOR": "xtorch_ops"},
}
VENDORS = {"cache_write", "fused_add_rms_norm", "paged_attention", "rms_norm", "rotary_embedding"}
MODELS = {
    "llama": VENDORS | {"gated_activation"},
    "mixtral": VENDORS | {"expert_routing", "fused_experts"},
}


@pytest.fixture(scope="module", params=MODELS)
def served(request, tmp_path_factory):
    """The model's name, and what each run found."""
    folder = tmp_path_factory.mktemp(request.param)
    checkpoint = kunport.tiny(request.param, folder / "checkpoint")
    kunport.generate_adapter(kunport.analyze(checkpoint), folder / "adapters")
    found = {}
    for run, variables in RUNS.items():
        environment = {**os.environ, **COMMON, **variables}
        environment |= {"KUNPORT_ADAPTER_PATH": str(folder / "adapters"), "KUNPORT_CACHE": str(folder / "cache")}
        job = Path(__file__).with_name("serving_job.py")
        answers = folder / f"{run}.json"
        subprocess.run([sys.executable, str(job), str(checkpoint), str(answers)], check=True, env=environment)
        found[run] = json.loads(answers.read_text())
    return request.param, found


@pytest.mark.parametrize("run", ["vendor", "earlier"])
def test_the_tokens_are_those_of_the_references(served, run):
    model, found = served
    assert found[run]["model"] == found["torch"]["model"]
    assert model in found[run]["model"]
    assert found[run]["device"].startswith("simulator of kunlun")
    for sampling in ("greedy", "seeded"):
        assert found[run][sampling] == found["torch"][sampling]


@pytest.mark.parametrize("run", ["vendor", "earlier"])
def test_what_the_vendor_has_ran_on_it_alone(served, run):
    model, found = served
    by_operator = {}
    for operator, provider, _ in found[run]["ran"]:
        by_operator.setdefault(operator, set()).add(provider)
    assert {operator for operator, providers in by_operator.items() if providers == {"vendor"}} == MODELS[model]
    assert {operator for operator, providers in by_operator.items() if providers == {"torch"}} == {"sample"}
    assert {provider for _, provider, _ in found["torch"]["ran"]} == {"torch"}
