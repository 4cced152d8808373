from dataclasses import replace
from functools import cache

import pytest
from kunport.analysis import analyze
from kunport.variants.verdict import Verdict, judge
from kunport.variants.verdict.engine import classes_in, native_classes
from kunport.variants.verdict.judge import ADAPTER, AS_IS, CANNOT, KERNEL
from kunport_codegen.graph import Location, Node
from kunport_codegen.recognition import recognize


@cache
def graph(model: str):
    return analyze(model, config={"num_hidden_layers": 1}).graph


def verdict(model: str, **changes) -> Verdict:
    changed = replace(graph(model), **changes)
    return judge(changed, recognize(changed))


def test_a_model_of_the_engine_runs_as_is():
    found = verdict("llama")
    assert found.answer == AS_IS
    assert "models/llama.py" in found.reasons[0]


def test_code_that_only_has_the_name_of_an_engine_class_is_judged_by_itself():
    found = verdict("llama", sources={"modeling_mine.py": "0" * 64})
    assert found.answer == ADAPTER


def test_layers_with_one_module_or_another_name_what_runs_in_both():
    mixed = analyze("exaone_moe", config={"num_hidden_layers": 2}).graph  # a dense layer, then one of experts
    found = judge(own := replace(mixed, sources={"modeling_mine.py": "0" * 64}), recognize(own))
    assert found.answer == ADAPTER
    assert {"FusedMoEFactory", "MergedColumnParallelLinear"} <= {use.layer for use in found.uses}


def test_an_adapter_says_what_runs_each_operator():
    found = verdict("olmo2")
    assert found.answer == ADAPTER
    uses = {use.layer: use.operators for use in found.uses}
    assert uses["QKVParallelLinear"] == ("q_proj", "k_proj", "v_proj")
    assert "o_proj" in uses["RowParallelLinear"]


def test_what_is_not_understood_cannot_run():
    found = graph("olmo2")
    unknown = Node(10**6, "unknown", ("a roll of the dice",), {}, None, None, 1, Location("modeling.py", 3))
    judged = verdict("olmo2", nodes=[*found.nodes, unknown])
    assert judged.answer == CANNOT
    assert judged.reasons == ("modeling.py:3: a roll of the dice",)


def test_an_operator_without_a_place_in_the_engine_needs_a_kernel():
    found = graph("olmo2")
    changed = [replace(node, op="cumsum") if node.op == "silu" else node for node in found.nodes]
    judged = verdict("olmo2", nodes=changed)
    assert judged.answer == KERNEL
    assert any("cumsum" in reason for reason in judged.reasons)


def test_the_engines_table_holds_its_own_classes_only():
    assert native_classes()["LlamaForCausalLM"] == "llama"
    assert "Olmo2ForCausalLM" not in native_classes()


@pytest.mark.parametrize(
    "source",
    [
        '_TEXT_GENERATION_MODELS = {"A": ("a", "AModel"), "B": ("transformers", "T")}',
        '_TEXT_GENERATION_MODELS: dict = {\n    # text\n    "B": ("transformers", "T"),\n    "A": ("a", "AModel"),\n}\nOTHER = {"C": 1}',
    ],
)
def test_a_registry_is_read_without_being_run(source):
    assert classes_in(source) == {"A": "a"}
