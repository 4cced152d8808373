"""Mixtures of experts: what the fused layer is told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kunport_codegen.expression import field
from kunport_codegen.facts import Experts
from kunport_codegen.graph import DType, Graph, Location, Parameter, Ref, Rename
from kunport_codegen.lowering.experts import place_experts, router_inputs
from kunport_codegen.lowering.flow import Flow, Layout, Op
from kunport_codegen.lowering.members import Member, Name, Own

WHERE = Location("model.py", 7)
BIAS = "layers.0.mlp.gate.correction"
FLOAT32 = DType("float32")
FACT = Experts(
    input=1,
    logits=2,
    router_weight="layers.0.mlp.gate.weight",
    output=3,
    nodes=frozenset(),
    experts=field("num_experts", 8),
    top_k=field("top_k", 2),
    scoring="softmax",
    renormalize=True,
    gate_up="layers.0.mlp.experts.gate_up_proj",
    down="layers.0.mlp.experts.down_proj",
    activation="silu",
    frame=0,
    where=WHERE,
)
STACKED = [
    Rename(
        ("l.*.moe.*.w1.weight", "l.*.moe.*.w3.weight"), "layers.*.mlp.experts.gate_up_proj", ("stack", "concatenate:1")
    ),
    Rename(("l.*.moe.*.w2.weight",), "layers.*.mlp.experts.down_proj", ("stack",)),
]


def refusals(fact: Experts) -> list[str]:
    return [refusal.reason for refusal in lowered(fact, []).refusals]


def placed(fact: Experts, renames: list[Rename]) -> Member:
    (op,) = lowered(fact, renames).ops
    assert (op.name, op.owner, op.args) == ("call", "layers.0.mlp", (Ref(1), Ref(2)))
    assert op.member is not None
    return op.member


def lowered(fact: Experts, renames: list[Rename]) -> Flow:
    shape = (fact.experts, field("hidden_size", 16), field("intermediate_size", 32))
    graph = Graph("TinyForCausalLM", "tiny", {}, renames=renames)
    graph.parameters[fact.down] = Parameter(fact.down, shape, DType("model"))
    graph.parameters[BIAS] = Parameter(BIAS, (1, field("num_experts", 8)), FLOAT32, buffer=True)
    flow = Flow(graph, [Op("Experts", (Ref(1), Ref(2)), {}, [3], "layers.0.mlp", WHERE, fact=fact)], 3)
    place_experts(flow)
    return flow


def test_sizes_and_routing_are_those_of_the_source() -> None:
    member = placed(FACT, [])
    sizes = {key: str(member.kwargs[key].expr) for key in ("num_experts", "top_k", "hidden_size", "intermediate_size")}
    assert sizes == {
        "num_experts": "config.num_experts",
        "top_k": "config.top_k",
        "hidden_size": "config.hidden_size",
        "intermediate_size": "config.intermediate_size",
    }
    assert member.kwargs["renormalize"] is True
    assert not {"ckpt_names", "scoring_func", "activation"} & member.kwargs.keys()


def test_sizes_of_experts_that_lie_the_other_way_round_are_the_same() -> None:
    """``[experts, intermediate, hidden]``, here with the sizes of the fixture in those places."""
    usual, turned = (placed(replace(FACT, transposed=transposed), []).kwargs for transposed in (False, True))
    assert (turned["hidden_size"], turned["intermediate_size"]) == (usual["intermediate_size"], usual["hidden_size"])


def test_experts_that_the_loader_does_not_know_are_taken_apart() -> None:
    biased = replace(FACT, gate_up_bias=f"{FACT.gate_up}_bias", down_bias=f"{FACT.down}_bias", packing="interleaved")
    apart = placed(biased, []).apart
    assert apart is not None
    assert apart.singles(FACT.gate_up) == ["0.gate_proj.weight", "0.up_proj.weight"]
    assert apart.singles(f"{FACT.down}_bias") == ["0.down_proj.bias"]
    assert apart.singles(FACT.router_weight) is None
    assert placed(FACT, []).apart is None
    assert "one by one in the checkpoint" in lowered(biased, STACKED).refusals[0].reason
    assert "not called after" in refusals(replace(biased, down_bias="layers.0.mlp.other"))[0]
    assert len(lowered(biased, []).whole) == 1


def test_limits_without_an_activation_that_has_them_are_refused() -> None:
    assert "limits or offsets" in refusals(replace(FACT, activation="gelu", limit=7.0))[0]


def test_the_checkpoints_names_of_one_expert_are_read_from_the_renames() -> None:
    assert placed(FACT, STACKED).kwargs["ckpt_names"] == ["w1", "w2", "w3"]


@pytest.mark.parametrize(
    ("change", "setting"),
    [
        ({"scoring": "sigmoid"}, ("scoring_func", "sigmoid")),
        ({"scoring": "sigmoid"}, ("use_grouped_topk", True)),
        ({"activation": "gelu"}, ("activation", "gelu")),
        ({"scale": 2.5}, ("routed_scaling_factor", 2.5)),
        ({"scale": 2.5}, ("num_expert_group", 1)),
        ({"transposed": True}, ("is_fused_checkpoint_transposed", True)),
        ({"activation": "quick_gelu", "limit": 7.0, "up_offset": 1.0}, ("swiglu_alpha", 1.702)),
        ({"activation": "quick_gelu", "limit": 7.0, "up_offset": 1.0}, ("activation", "swigluoai_uninterleave")),
        ({"limit": 5.0}, ("swiglu_limit", 5.0)),
    ],
)
def test_what_is_not_usual_is_said(change: dict[str, object], setting: tuple[str, object]) -> None:
    member = placed(replace(FACT, **change), [])  # type: ignore[arg-type]
    assert member.kwargs[setting[0]] == setting[1]


def test_a_bias_of_the_choice_is_a_parameter_of_the_class_in_one_dimension() -> None:
    member = placed(replace(FACT, scoring="sigmoid", correction_bias=BIAS, epsilon=1e-20), [])
    assert member.kwargs["e_score_correction_bias"] == Own(
        "correction", (1, field("num_experts", 8)), FLOAT32, flat=True
    )
    assert member.tensors == {"e_score_correction_bias": BIAS}


def test_groups_are_those_of_the_configuration_and_one_group_is_guarded() -> None:
    several = replace(FACT, groups=field("n_group", 4), top_groups=field("topk_group", 2), group_score="max")
    flow = lowered(several, [])
    member = placed(several, [])
    assert (member.kwargs["num_expert_group"], member.kwargs["topk_group"]) == (several.groups, several.top_groups)
    assert (flow.refusals, flow.guards) == ([], [])
    one = replace(several, groups=field("n_group", 1), top_groups=field("topk_group", 1), correction_bias=BIAS)
    flow = lowered(one, [])
    assert [(str(guard.expr), guard.outcome) for guard in flow.guards] == [("config.n_group == 1", True)]
    assert placed(one, []).kwargs["num_expert_group"] == 1
    assert flow.refusals == []


OWN_ROUTERS: list[dict[str, object]] = [
    {"scoring": None, "logits": None},
    {"scoring": "sqrt_softplus", "correction_bias": BIAS},
    {"epsilon": 1e-3},
    {"groups": field("n_group", 4), "top_groups": 2, "group_score": "max", "correction_bias": BIAS},
    {"groups": field("n_group", 4), "top_groups": 2, "group_score": "sum of top 2"},
]


@pytest.mark.parametrize("change", OWN_ROUTERS)
def test_a_router_that_the_engine_lacks_stays_code_and_hands_over_what_it_chose(change: dict[str, object]) -> None:
    fact = replace(FACT, weights=4, choice=5, **change)  # type: ignore[arg-type]
    assert router_inputs(fact) == (4, 5)
    *joined, call = routed_by_code(fact)
    assert [op.name for op in joined] == ["to", "to", "cat"]
    assert (joined[-1].args, joined[-1].kwargs) == (([Ref(op.results[0]) for op in joined[:2]],), {"dim": -1})
    assert (call.name, call.args) == ("call", (Ref(1), Ref(joined[-1].results[0])))
    assert call.member is not None
    assert call.member.kwargs["custom_routing_function"] == Name("split_routing")
    assert not call.member.tensors
    told = {"renormalize", "scoring_func", "use_grouped_topk", "e_score_correction_bias"}
    assert not told & call.member.kwargs.keys()


def test_no_expert_becomes_one_without_a_weight() -> None:
    fact = replace(FACT, weights=4, choice=5, scoring=None, logits=None, absent=True)
    weights, choice, none, *filled, joined, _ = routed_by_code(fact)
    assert (none.name, none.args) == ("ge", (Ref(choice.results[0]), FACT.experts))
    wanted = [(Ref(op.results[0]), Ref(none.results[0]), 0.0) for op in (weights, choice)]
    assert [(op.name, op.args) for op in filled] == [("masked_fill", each) for each in wanted]
    assert joined.args == ([Ref(op.results[0]) for op in filled],)


def test_a_router_that_the_engine_has_hands_over_its_logits() -> None:
    assert router_inputs(replace(FACT, weights=4, choice=5)) == (2,)


PLAIN = replace(FACT, gated=False, packing="single", gate_up="layers.0.mlp.experts.up_proj", activation="relu2")
SINGLES = [
    Rename(("l.*.moe.*.w1.weight",), "layers.*.mlp.experts.up_proj", ("stack",)),
    Rename(("l.*.moe.*.w2.weight",), "layers.*.mlp.experts.down_proj", ("stack",)),
]


@pytest.mark.parametrize(("renames", "names"), [([], ["up_proj", "down_proj", None]), (SINGLES, ["w1", "w2", None])])
def test_experts_without_a_gate_have_two_matrices(renames: list[Rename], names: list[str | None]) -> None:
    member = placed(PLAIN, renames)
    assert (member.kwargs["activation"], member.kwargs["ckpt_names"]) == ("relu2_no_mul", names)
    assert member.apart is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"activation": "relu"}, "without a gate, by relu"),
        ({"transposed": True}, "transposed and without a gate"),
        ({"down_bias": f"{FACT.down}_bias"}, "biases and no gate"),
    ],
)
def test_experts_without_a_gate_that_the_engine_lacks_are_refused(change: dict[str, object], reason: str) -> None:
    assert reason in refusals(replace(PLAIN, **change))[0]  # type: ignore[arg-type]


def test_experts_that_read_what_the_router_weighted_are_refused() -> None:
    assert "weights what the experts read" in refusals(replace(FACT, weighted="input"))[0]


def routed_by_code(fact: Experts) -> list[Op]:
    graph = Graph("TinyForCausalLM", "tiny", {})
    shape = (fact.experts, field("hidden_size", 16), field("intermediate_size", 32))
    graph.parameters[fact.down] = Parameter(fact.down, shape, DType("model"))
    op = Op("Experts", (Ref(1), Ref(4), Ref(5)), {}, [3], "layers.0.mlp", WHERE, fact=fact)
    flow = Flow(graph, [op], 3, free=6, layouts={4: Layout(True, (2,)), 5: Layout(True, (2,))})
    place_experts(flow)
    assert not flow.refusals
    return flow.ops
