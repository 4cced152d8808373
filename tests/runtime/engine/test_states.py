"""A model with recurrent layers and attention, served by kunport's layers over vLLM's state cache."""

import pytest
from kunport_model_adapters.discovery import VARIABLE
from running_scenarios import run_scenarios

import kunport

pytestmark = pytest.mark.engine

SCENARIOS = ("reference", "plain", "pieces", "parallel")


@pytest.fixture(scope="module")
def found(tmp_path_factory, untraced):
    """What each scenario found, by its name."""
    folder = tmp_path_factory.mktemp("states")
    checkpoint = kunport.tiny("bamba", folder / "bamba")
    adapter = kunport.generate_adapter(kunport.analyze(str(checkpoint)), folder / "adapters")
    return run_scenarios(SCENARIOS, checkpoint, folder, untraced, **{VARIABLE: str(adapter.parent)})


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


def test_ranks_that_share_out_states_answer_the_same(found):
    check(found["parallel"]["greedy"], found["reference"])
