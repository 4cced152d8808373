"""Generated adapters served through the vendor's operators, simulated: the tokens are those of the references."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import kunport

pytestmark = pytest.mark.engine

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
VENDORS = {"cache_write", "fused_add_rms_norm", "linear", "paged_attention", "rms_norm", "rotary_embedding"}
# A model, the generation of wheels that it is served with, and what of it runs on the vendor's operators.
SERVED = {
    "llama": ("earlier", VENDORS | {"gated_activation"}),
    "mixtral": ("vendor", VENDORS | {"expert_routing", "fused_experts"}),
}


@pytest.fixture(scope="module", params=SERVED)
def served(request, tmp_path_factory, untraced):
    """The model's name, what was found with the references, and what on the vendor's operators."""
    folder = tmp_path_factory.mktemp(request.param)
    checkpoint = kunport.tiny(request.param, folder / "checkpoint")
    kunport.generate_adapter(kunport.analyze(checkpoint), folder / "adapters")
    found = []
    for run in ("torch", SERVED[request.param][0]):
        environment = untraced | COMMON | RUNS[run]
        environment |= {"KUNPORT_ADAPTER_PATH": str(folder / "adapters"), "KUNPORT_CACHE": str(folder / "cache")}
        job = Path(__file__).with_name("serving_job.py")
        answers = folder / f"{run}.json"
        subprocess.run([sys.executable, str(job), str(checkpoint), str(answers)], check=True, env=environment)
        found.append(json.loads(answers.read_text()))
    return request.param, *found


def test_the_tokens_are_those_of_the_references(served):
    model, reference, vendor = served
    assert vendor["model"] == reference["model"]
    assert model in vendor["model"]
    assert vendor["device"].startswith("simulator of kunlun")
    for sampling in ("greedy", "seeded"):
        assert vendor[sampling] == reference[sampling]


def test_what_the_vendor_has_ran_on_it_alone(served):
    model, reference, vendor = served
    by_operator = {}
    for operator, provider, _ in vendor["ran"]:
        by_operator.setdefault(operator, set()).add(provider)
    assert {operator for operator, providers in by_operator.items() if providers == {"vendor"}} == SERVED[model][1]
    assert {operator for operator, providers in by_operator.items() if providers == {"torch"}} == {
        "embed_tokens",
        "sample",
    }
    assert {provider for _, provider, _ in reference["ran"]} == {"torch"}
