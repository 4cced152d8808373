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
    "KUNPORT_DEVICE": "kunlun",
    "KUNPORT_SIMULATOR": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_NO_USAGE_STATS": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
}
VENDORS = {"cache_write", "fused_add_rms_norm", "linear", "paged_attention", "rms_norm", "rotary_embedding"}
# A model, the generation of wheels that it is served with, and what of it runs on the vendor's operators.
SERVED = {
    "llama": ("xtorch_ops", VENDORS | {"gated_activation"}),
    "mixtral": ("1", VENDORS | {"expert_routing", "fused_experts"}),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory, untraced):
    """Of each model the answers of Transformers, of the torch references, and of the vendor's operators."""
    folder = tmp_path_factory.mktemp("vendor")
    adapters = folder / "adapters"
    jobs = []
    for model, (generation, _) in SERVED.items():
        checkpoint = kunport.tiny(model, folder / model)
        kunport.generate_adapter(kunport.analyze(checkpoint), adapters)
        common = {"KUNPORT_ADAPTER_PATH": str(adapters), "KUNPORT_CACHE": str(folder / f"{model}-cache")}
        for who, environment in {
            "transformers": None,
            "torch": common | {"KUNPORT_DISABLE_CUSTOM_OPS": "1"},
            "vendor": common | {"KUNPORT_SIMULATOR": generation},
        }.items():
            answers = folder / f"{model}-{who}.json"
            jobs.append({"checkpoint": str(checkpoint), "environment": environment, "answers": str(answers)})
    job = Path(__file__).with_name("serving_job.py")
    subprocess.run([sys.executable, str(job), json.dumps(jobs)], check=True, env=untraced | COMMON)
    answers = [json.loads(Path(each["answers"]).read_text()) for each in jobs]
    return {model: answers[3 * index : 3 * index + 3] for index, model in enumerate(SERVED)}


@pytest.mark.parametrize("model", SERVED)
def test_the_tokens_are_those_of_the_references(found, model):
    original, reference, vendor = found[model]
    assert vendor["model"] == reference["model"]
    assert model in vendor["model"]
    assert vendor["device"].startswith("simulator of kunlun")
    assert vendor["greedy"] == reference["greedy"]
    assert reference["greedy"][:8] == original["greedy"]
    assert vendor["seeded"] == reference["seeded"] != reference["greedy"]


@pytest.mark.parametrize("model", SERVED)
def test_what_the_vendor_has_ran_on_it_alone(found, model):
    _, reference, vendor = found[model]
    by_operator = {}
    for operator, provider, _ in vendor["ran"]:
        by_operator.setdefault(operator, set()).add(provider)
    assert {operator for operator, providers in by_operator.items() if providers == {"vendor"}} == SERVED[model][1]
    assert {operator for operator, providers in by_operator.items() if providers == {"torch"}} == {
        "embed_tokens",
        "sample",
    }
    assert {provider for _, provider, _ in reference["ran"]} == {"torch"}
