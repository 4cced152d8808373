"""Mixtures of experts: what the fused layer is told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kunport_codegen.expression import field
from kunport_codegen.facts import Experts
from kunport_codegen.graph import DType, Graph, Location, Parameter, Ref, Rename
from kunport_codegen.lowering.experts import place_experts
from kunport_codegen.lowering.flow import Flow, Op
from kunport_codegen.lowering.members import Member

WHERE = Location("model.py", 7)
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


def placed(fact: Experts, renames: list[Rename]) -> Member:
    shape = (fact.experts, field("hidden_size", 16), field("intermediate_size", 32))
    graph = Graph("TinyForCausalLM", "tiny", {}, renames=renames)
    graph.parameters[fact.down] = Parameter(fact.down, shape, DType("model"))
    flow = Flow(graph, [Op("Experts", (Ref(1), Ref(2)), {}, [3], "layers.0.mlp", WHERE, fact=fact)], 3)
    place_experts(flow)
    (op,) = flow.ops
    assert (op.name, op.owner, op.args) == ("call", "layers.0.mlp", (Ref(1), Ref(2)))
    assert op.member is not None
    return op.member


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


def test_the_checkpoints_names_of_one_expert_are_read_from_the_renames() -> None:
    assert placed(FACT, STACKED).kwargs["ckpt_names"] == ["w1", "w2", "w3"]


@pytest.mark.parametrize(
    ("change", "setting"),
    [({"scoring": "sigmoid"}, ("scoring_func", "sigmoid")), ({"activation": "gelu"}, ("activation", "gelu"))],
)
def test_what_is_not_usual_is_said(change: dict[str, str], setting: tuple[str, str]) -> None:
    member = placed(replace(FACT, **change), [])  # type: ignore[arg-type]
    assert member.kwargs[setting[0]] == setting[1]
