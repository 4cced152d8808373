"""vLLM on kunport's platform: what it answers, by whose operators, with whose memory."""

import pytest
from running_scenarios import run_scenarios

import kunport

pytestmark = pytest.mark.engine

SCENARIOS = (
    "reference",
    "layers",
    "accelerators",
    "compiler",
    "plain",
    "pressed",
    "asleep",
    "poor",
    "exhausted",
    "overlapped",
    "tuned",
    "parallel",
    "nodes",
)


@pytest.fixture(scope="module")
def found(tmp_path_factory, untraced):
    """What each scenario found, by its name."""
    folder = tmp_path_factory.mktemp("serving")
    checkpoint = kunport.tiny("llama", folder / "llama")
    return run_scenarios(SCENARIOS, checkpoint, folder, untraced)


def tokens(answers):
    return [answer["tokens"] for answer in answers]


def check(answers, expected):
    assert tokens(answers) == tokens(expected)
    for answer, other in zip(answers, expected, strict=True):
        assert answer["logprobs"] == pytest.approx(other["logprobs"], abs=1e-4)


def test_it_answers_as_transformers_does(found):
    assert found["plain"]["platform"] == "kunport_runtime.engine.platforms.cpu"
    check(found["plain"]["greedy"], found["reference"])


def test_every_operator_is_counted_in_its_layer(found):
    records = found["plain"]["operators"]
    assert {record["provider"] for record in records} == {"torch"}
    where = {(record["layer"], record["operator"]) for record in records}
    assert {
        ("model.layers.0.input_layernorm", "rms_norm"),
        ("model.layers.1.input_layernorm", "fused_add_rms_norm"),
        ("model.layers.0.self_attn.rotary_emb", "rotary_embedding"),
        ("model.layers.1.self_attn.attn", "cache_write"),
        ("model.layers.1.self_attn.attn", "paged_attention"),
        ("model.layers.1.mlp.act_fn", "gated_activation"),
        ("model.layers.1.mlp.down_proj", "linear"),
        ("model.embed_tokens", "embed_tokens"),
        ("lm_head", "linear"),
    } <= where
    assert {operator for layer, operator in where if not layer} == {"sample"}


def test_layers_compute_what_vllms_do(found):
    errors = found["layers"]["errors"]
    assert len(errors) > 20
    assert max(errors.values()) < 1e-5, errors


def test_layers_are_ours_where_a_compiler_is_asked_for(found):
    assert found["compiler"] == {"mode": "NONE", "custom_ops": ["all"]}


@pytest.mark.parametrize(("device", "communicator"), [("cuda", "CudaCommunicator"), ("kunlun", "KunlunCommunicator")])
def test_the_platforms_of_accelerators_name_what_exists(found, device, communicator):
    assert found["accelerators"][device] == {
        "classes": ["AcceleratorWorker", communicator, "LoraWeights"],
        "out_of_tree": True,
        "type": "cuda",
        "ray": "GPU",
        "variable": "CUDA_VISIBLE_DEVICES",
    }


def test_shared_prefixes_pieces_and_preemption_change_nothing(found):
    pressed = found["pressed"]
    assert pressed["preemptions"] > 0
    assert any(answer["cached"] for answer in pressed["again"])
    check(pressed["greedy"], found["reference"])
    check(pressed["again"], found["reference"])


def test_a_seed_gives_the_same_sample_in_any_company(found):
    plain = tokens(found["plain"]["seeded"])
    assert plain != tokens(found["plain"]["greedy"])
    assert tokens(found["pressed"]["seeded"]) == plain


def test_lora_weights_of_one_request_do_not_touch_another(found):
    tuned = found["tuned"]
    assert tuned["plain"] == found["reference"][3]["tokens"]
    assert tuned["tuned"] == tuned["expected"] != tuned["plain"]


def test_two_ranks_answer_as_one(found):
    check(found["parallel"]["greedy"], found["reference"])
    assert tokens(found["parallel"]["seeded"]) == tokens(found["plain"]["seeded"])


def test_two_ranks_on_two_nodes_of_ray_answer_as_one(found):
    if "no_cluster" in found["nodes"]:
        pytest.skip(f"Ray itself cannot start two nodes here: {found['nodes']['no_cluster']}")
    assert len(set(found["nodes"]["nodes"])) == 2
    check(found["nodes"]["greedy"], found["reference"])
    assert tokens(found["nodes"]["seeded"]) == tokens(found["plain"]["seeded"])


def test_a_worker_that_dies_is_noticed(found):
    assert found["parallel"]["seconds"] < 10
    assert found["parallel"]["killed"]


def test_memory_is_accounted_for_and_survives_a_sleep(found):
    before, during = ({a["tag"]: a for a in found["asleep"][when]} for when in ("before", "during"))
    for account in before.values():
        assert account["reserved"] == account["used"] + account["padding"] + account["free"]
    assert before["kv_cache"]["used"] == 32 << 20
    # Everything of the model lies in the pool; so do a few numbers that layers keep to themselves.
    assert 0 <= before["weights"]["used"] - found["asleep"]["model"] < 1024
    assert during["weights"]["asleep"]
    assert during["kv_cache"]["asleep"]
    check(found["asleep"]["greedy"], found["reference"])


def test_a_budget_that_is_too_small_is_refused_by_name(found):
    assert "MemoryBudgetError: This model needs about" in found["poor"]["error"]
    assert "the memory budget is 1.00 MiB" in found["poor"]["error"]


@pytest.mark.parametrize(("scenario", "scheduler"), [("exhausted", "Scheduler"), ("overlapped", "AsyncScheduler")])
def test_memory_that_is_wanting_fails_a_request_only_where_it_runs_alone(found, scenario, scheduler):
    exhausted = found[scenario]
    assert exhausted["scheduler"] == scheduler
    assert max(exhausted["failures"]) > 2
    assert not exhausted["out_of_service"]
    for sampling, expected in (("greedy", found["reference"]), ("seeded", found["plain"]["seeded"])):
        *others, longest = exhausted[sampling]
        check(others, expected[:-1])
        assert {answer["ended"][0] for answer in others} == {"length"}
        reason, message = longest["ended"]
        assert reason == "error"
        assert message.startswith("Out of memory: this request needs more than is left, even alone.")
        assert longest["tokens"] == expected[-1]["tokens"][: len(longest["tokens"])]
    check(exhausted["after"], found["reference"])
