import pytest
from kunport.analysis import analyze
from kunport.tiny_models.cases import cases
from kunport.variants import read_facts
from kunport.variants.compare import differences, distance, sides_of
from kunport.variants.known import find_nearest, known_models, pack
from kunport.variants.known.table import read_known

REGENERATE = "the table is stale: python -m kunport.variants known"


def test_every_architecture_with_its_defaults_is_in_the_table():
    wanted = {str(case): case.architecture for case in cases() if not case.tag}
    assert {name: facts.architecture for name, facts in known_models().items()} == wanted, REGENERATE


@pytest.mark.parametrize("name", ["gpt2", "olmo2"])
def test_the_table_says_what_the_analysis_says(name):
    assert pack(read_facts(analyze(name).graph)) == read_known()["models"][name], REGENERATE


def test_packing_keeps_every_value():
    facts = known_models()["gemma2"]
    assert pack(facts) == read_known()["models"]["gemma2"]
    assert facts.layer(0)["attention.window"].value == 4096


def test_a_model_of_the_table_is_nearest_to_one_of_its_family():
    nearest = find_nearest(known_models()["olmo2"])
    assert nearest is not None
    assert nearest.model_type == "olmo3"
    assert {"attention.window"} <= {each.key for each in nearest.differences}


def test_a_model_without_layers_is_near_to_nothing():
    facts = known_models()["llama"]
    assert find_nearest(type(facts)("X", "x", facts.model, ())) is None


def test_the_bound_spares_comparisons_and_changes_no_answer():
    models = known_models()
    for facts in list(models.values())[::17]:
        ours = sides_of(facts)
        others = {name: each for name, each in models.items() if each.architecture != facts.architecture and each.kinds}
        ranked = {name: differences(ours, sides_of(each)) for name, each in others.items()}
        best = min(ranked, key=lambda name: (distance(ranked[name]), len(ranked[name]), name))
        nearest = find_nearest(facts)
        assert nearest is None or (nearest.model_type, nearest.distance) == (best, distance(ranked[best]))
