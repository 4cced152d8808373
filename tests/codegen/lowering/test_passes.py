"""What single passes make of a decoder."""

from __future__ import annotations

import pytest
from decoders import Decoder, build
from kunport_codegen.graph import Graph
from kunport_codegen.lowering import LoweredModel, LoweringError, lower
from kunport_codegen.lowering.flow import Op
from kunport_codegen.lowering.members import Choice, Member
from kunport_codegen.lowering.structure import Body
from kunport_codegen.recognition import recognize


def lowered(graph: Graph) -> LoweredModel:
    return lower(graph, recognize(graph))


def layer(model: LoweredModel) -> Body:
    """The one body of all layers."""
    inner = next(step.fact for step in model.root.steps if step.name == "enter")
    body: Body = next(step.fact.body for step in inner.steps if step.name == "layers")
    return body


def members(body: Body) -> dict[str, Member]:
    found = {step.member.name: step.member for step in body.steps if step.name == "call" and step.member}
    for child in body.children().values():
        found |= members(child)
    return found


def calls(body: Body) -> list[Op]:
    return [step for step in body.steps if step.name == "call"]


def test_a_pre_norm_layer_hands_its_residual_on() -> None:
    body = layer(lowered(build(Decoder())))
    assert [len(step.results) for step in calls(body)] == [2, 2]
    assert len(body.outputs) == 2
    assert not any(step.name == "add" for step in body.steps)


def test_a_layer_of_one_addition_hands_its_residual_on() -> None:
    body = layer(lowered(build(Decoder(residual="single"))))
    assert [len(step.results) for step in calls(body)] == [2]
    assert len(body.outputs) == 2
    assert not any(step.name == "add" for step in body.steps)


def test_a_sandwich_adds_in_the_norms_before_attention_and_mlp() -> None:
    body = layer(lowered(build(Decoder(residual="sandwich", norm="gemma"))))
    assert [len(step.results) for step in calls(body)] == [2, 1, 2, 1]


@pytest.mark.parametrize("residual", ["post", "parallel", "shared"])
def test_other_skeletons_keep_their_additions(residual: str) -> None:
    body = layer(lowered(build(Decoder(residual=residual))))
    if residual == "post":
        assert all(len(step.results) == 1 for step in calls(body))
    assert len([step for step in body.steps if step.name == "add"]) >= (2 if residual == "post" else 1)


def test_layer_norms_do_not_add() -> None:
    body = layer(lowered(build(Decoder(norm="layer"))))
    assert all(len(step.results) == 1 for step in calls(body))
    assert len(body.outputs) == 1


def test_windows_by_layer_become_a_choice_on_the_layers_index() -> None:
    model = lowered(build(Decoder(windows=(True, False, True))))
    window = members(layer(model))["attn"].kwargs["per_layer_sliding_window"]
    assert isinstance(window, Choice)
    assert str(window.test) == "config.layer_types[layer_idx] == 'sliding_attention'"
    assert (str(window.then.expr), window.otherwise) == ("config.sliding_window", None)


def test_layers_without_rotation_lack_the_table() -> None:
    model = lowered(build(Decoder(rotated=(True, False, True))))
    assert str(members(layer(model))["rotary_emb"].when) == "config.no_rope_layers[layer_idx]"


def test_a_share_of_the_head_that_the_parameters_do_not_give_is_said() -> None:
    plain = members(layer(lowered(build(Decoder()))))["rotary_emb"]
    partial = members(layer(lowered(build(Decoder(rotary_dim=2)))))["rotary_emb"]
    assert str(plain.kwargs["rope_parameters"]) == "config.rope_parameters"
    assert (partial.kwargs["rope_parameters"].key, partial.kwargs["rope_parameters"].item.value) == ("rope_dim", 2)


def test_layers_that_nothing_tells_apart_are_refused() -> None:
    graph = build(Decoder(windows=(True, False, False)))
    graph.config["layer_types"] = ["full_attention"]
    with pytest.raises(LoweringError, match="no field of the configuration"):
        lowered(graph)


@pytest.mark.parametrize(
    ("norm", "factory", "settings"),
    [
        ("before", "RMSNorm", {"eps"}),
        ("after", "RMSNorm", {"eps", "dtype"}),
        ("gemma", "GemmaRMSNorm", {"eps"}),
        ("layer", "LayerNorm", {"eps"}),
        ("bare", "LayerNorm", {"eps", "elementwise_affine"}),
    ],
)
def test_each_form_of_norm_has_its_layer(norm: str, factory: str, settings: set[str]) -> None:
    member = members(layer(lowered(build(Decoder(norm=norm)))))["input_norm"]
    assert (member.factory, set(member.kwargs)) == (factory, settings)
    assert str(member.kwargs["eps"].expr) == "config.rms_norm_eps"


def test_a_norm_over_all_heads_knows_the_heads() -> None:
    found = members(layer(lowered(build(Decoder(query_norm="full", norm="before")))))
    assert found["q_norm"].factory == "HeadsRMSNorm"
    assert [str(value.expr) for value in found["k_norm"].args] == ["config.num_key_value_heads", "config.head_dim"]


@pytest.mark.parametrize(
    ("gate", "factories"),
    [
        ("separate", {"MergedColumnParallelLinear", "RowParallelLinear", "SiluAndMul"}),
        ("fused", {"MergedColumnParallelLinear", "RowParallelLinear", "SiluAndMul"}),
        ("none", {"ColumnParallelLinear", "RowParallelLinear"}),
    ],
)
def test_mlps_are_split_over_ranks_by_columns_then_rows(gate: str, factories: set[str]) -> None:
    body = layer(lowered(build(Decoder(gate=gate))))
    mlp = next(child for path, child in body.children().items() if path.endswith("mlp"))
    assert {member.factory for member in members(mlp).values()} == factories


def test_an_activation_that_the_engine_has_no_layer_for_is_a_kernel_with_what_follows_it() -> None:
    model = lowered(build(Decoder(activation="relu")))
    assert "2 row-wise operators in one Triton kernel (tiny_mlp_rows)" in model.fused
    assert not model.whole


@pytest.mark.parametrize(
    ("projections", "order", "groups"), [("reversed", (2, 1, 0), 1), ("grouped", (0, 1, 2), 2), ("fused", None, 1)]
)
def test_fused_rows_are_followed_by_dataflow(projections: str, order: tuple[int, ...] | None, groups: int) -> None:
    weights = lowered(build(Decoder(projections=projections))).weights
    if order is None:
        assert not weights.regroups
        return
    (regroup,) = weights.regroups
    assert (regroup.path, regroup.order, regroup.groups) == ("model.layers.*.attention.qkv", order, groups)
    assert (regroup.heads is not None) == (projections == "grouped")


def test_a_bias_keeps_the_expression_that_decides_on_it() -> None:
    member = members(layer(lowered(build(Decoder(bias=True)))))["qkv_proj"]
    assert str(member.kwargs["bias"].expr) == "config.attention_bias"


def test_what_happens_to_the_logits_goes_to_the_processor() -> None:
    kwargs = {kind: lowered(build(Decoder(logits=kind))).head.processor.kwargs for kind in ("scale", "divide", "cap")}
    assert str(kwargs["scale"]["scale"].expr) == "config.logit_scale"
    assert str(kwargs["divide"]["scale"].expr) == "1 / config.logit_scale"
    assert str(kwargs["cap"]["soft_cap"].expr) == "config.softcap"


def test_a_tied_head_names_the_table() -> None:
    assert lowered(build(Decoder(tied=True))).head.tied == "model.embed_tokens"
    assert lowered(build(Decoder())).head.tied is None


def test_guards_are_those_that_the_adapter_depends_on() -> None:
    guards = lowered(build(Decoder())).guards
    assert [str(guard.expr) for guard in guards] == ["config.hidden_act == 'silu'"]


def test_a_layer_whose_output_is_mixed_is_the_same_on_every_rank() -> None:
    graph = build(Decoder(gate="none"))
    for node in graph.nodes:
        if node.op == "silu":
            node.op, node.kwargs = "softmax", {"dim": -1}
    found = members(layer(lowered(graph)))
    assert (found["up_proj"].factory, found["down_proj"].factory) == ("ReplicatedLinear", "ReplicatedLinear")


def test_a_mean_over_all_heads_limits_the_ranks() -> None:
    model = lowered(build(Decoder(query_norm="full", norm="layer")))
    assert [refusal.op for refusal in model.whole][:2] == ["layer norm", "layer norm"]


def test_a_window_that_the_engine_would_add_by_itself_is_refused() -> None:
    graph = build(Decoder())
    graph.config.pop("layer_types")
    with pytest.raises(LoweringError, match=r"the engine would give it the window of config\.sliding_window"):
        lowered(graph)


def test_every_layer_that_is_not_like_the_others_is_named_with_its_class() -> None:
    graph = build(Decoder())
    odd = [node for node in graph.nodes if node.op == "silu"][1]
    odd.op = "relu"
    with pytest.raises(LoweringError, match="TinyLayer: TinyMLP computes differently"):
        lowered(graph)
