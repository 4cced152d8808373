import json

from hypothesis import given
from hypothesis import strategies as st
from kunport.variants import Fact, LayerKind, ModelFacts, compare
from kunport.variants.compare import distance
from kunport_codegen.graph import Location

HERE = Location("model.py", 7)


def model(layers: list[dict], **facts) -> ModelFacts:
    """A model with the facts of each layer given apart."""
    kinds = tuple(
        LayerKind("layers", (index,), {key: Fact(value, HERE) for key, value in each.items()})
        for index, each in enumerate(layers)
    )
    return ModelFacts("Some", "some", {key: Fact(value, HERE) for key, value in facts.items()}, kinds)


def keys(left: ModelFacts, right: ModelFacts) -> list[str]:
    return [each.key for each in compare(left, right)]


def test_models_differ_in_the_keys_that_differ():
    left = model([{"attention.kind": "softmax", "mlp.size": 8}], state=["kv"])
    right = model([{"attention.kind": "mla", "mlp.size": 8}], state=[])
    assert keys(left, right) == ["state", "attention.kind"]


def test_layers_count_by_their_share_not_by_their_number():
    window = [{"attention.window": 4}, {"attention.window": None}]
    assert keys(model(window * 2), model(window * 3)) == []
    assert keys(model(window * 2), model([window[0]] * 3 + [window[1]])) == ["attention.window"]


def test_a_key_that_only_one_model_has_differs():
    (found,) = compare(model([{"router.top_k": 2}]), model([{}]))
    assert (found.key, found.left[0].fact.value, found.right[0].fact) == ("router.top_k", 2, None)
    assert found.as_dict()["right"] == [{"layers": [], "absent": True}]


def test_norms_with_other_names_are_paired_in_order():
    left = model([{"norm[ln_1].kind": "layer", "norm[ln_2].kind": "rms"}])
    right = model([{"norm[input_layernorm].kind": "layer", "norm[post].kind": "layer"}])
    assert keys(left, right) == ["norm[ln_2|post].kind"]


def test_an_opaque_fact_agrees_with_nothing():
    unclear = ModelFacts("Some", "some", {"state": Fact(None, HERE, reason="model.py:7: roll")}, ())
    assert keys(unclear, unclear) == ["state"]


def test_kinds_weigh_more_than_sizes():
    base = {"attention.kind": "softmax", "mlp.size": 8, "norm[a].size": 4}
    other_kind, other_size = base | {"attention.kind": "mla"}, base | {"mlp.size": 9, "norm[a].size": 5}
    assert distance(compare(model([base]), model([other_kind]))) > distance(compare(model([base]), model([other_size])))


VALUES = st.one_of(st.none(), st.booleans(), st.integers(0, 3), st.sampled_from(["softmax", "mla"]))
LAYERS = st.lists(st.dictionaries(st.sampled_from(["attention.kind", "mlp.size", "norm[a].kind"]), VALUES), max_size=4)


@given(LAYERS, LAYERS)
def test_a_model_agrees_with_itself_and_differences_are_the_same_from_both_sides(one, other):
    left, right = model(one), model(other)
    assert compare(left, left) == []
    assert {each.key for each in compare(left, right)} == {each.key for each in compare(right, left)}
    json.dumps([each.as_dict() for each in compare(left, right)])
