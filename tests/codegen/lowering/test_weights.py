"""The weight map: every tensor to its place, by rules that the loader has."""

from __future__ import annotations

import pytest
from decoders import Decoder, build
from kunport_codegen.graph import Graph, Location, Rename
from kunport_codegen.lowering import LoweringError, lower
from kunport_codegen.lowering.members import Member
from kunport_codegen.lowering.weights import WeightMap, WeightMapError, weight_map
from kunport_codegen.recognition import recognize

WHERE = Location("model.py", 1)


def mapped(graph: Graph) -> WeightMap:
    return lower(graph, recognize(graph)).weights


def test_packed_layers_are_named_by_the_shortest_part_that_tells_their_shards() -> None:
    weights = mapped(build(Decoder()))
    assert weights.stacked[".q_proj"] == (".qkv_proj", "q")
    assert weights.packed == {"qkv_proj": ["q_proj", "k_proj", "v_proj"], "gate_up_proj": ["gate_proj", "up_proj"]}
    assert weights.map("model.layers.1.mlp.up_proj.weight") == ("model.layers.1.mlp.gate_up_proj.weight", 1)


def test_a_name_that_others_share_is_told_by_more_of_its_path() -> None:
    graph = Graph("TinyForCausalLM", "tiny", {})
    names = ("layers.0.mlp.gate_proj", "layers.0.mlp.up_proj", "layers.0.shared.gate_proj", "layers.0.shared.up_proj")
    graph.parameters = {f"{name}.weight": None for name in names}  # type: ignore[misc]
    merged = Member(
        "layers.0.mlp.gate_up_proj", "MergedColumnParallelLinear", [], {}, WHERE, "pair", sources=list(names[:2])
    )
    plain = [Member(name, "ReplicatedLinear", [], {}, WHERE, "pair", sources=[name]) for name in names[2:]]
    weights = weight_map(graph, [merged, *plain], [], [])
    assert weights.stacked == {
        ".mlp.gate_proj": (".mlp.gate_up_proj", 0),
        ".mlp.up_proj": (".mlp.gate_up_proj", 1),
    }


@pytest.mark.parametrize(
    ("old", "new", "table", "rule"),
    [
        ("embed_out.weight", "lm_head.weight", "prefixes", ("embed_out.", "lm_head.")),
        (
            "model.layers.*.block.o_proj.weight",
            "model.layers.*.attention.o_proj.weight",
            "substrings",
            (".block.", ".attention."),
        ),
        (
            "layers.*.mlp.down_proj.weight",
            "model.layers.*.mlp.down_proj.weight",
            "prefixes",
            ("layers.", "model.layers."),
        ),
    ],
)
def test_renames_become_the_simplest_rule_that_does_them(old: str, new: str, table: str, rule: tuple[str, str]) -> None:
    graph = build(Decoder())
    graph.renames = [Rename((old,), new)]
    weights = mapped(graph)
    assert getattr(weights, table) == dict([rule])
    assert weights.map(old.replace("*", "2")) == (new.replace("*", "2"), None)


def test_a_rename_that_is_no_simple_rule_is_a_pattern() -> None:
    graph = build(Decoder())
    graph.renames = [Rename(("h.*.w2",), "model.layers.*.mlp.down_proj.weight")]
    weights = mapped(graph)
    assert weights.map("h.2.w2") == ("model.layers.2.mlp.down_proj.weight", None)
    assert list(weights.regexes) == [r"^h\.(\d+)\.w2$"]


def test_a_tensor_that_nothing_reads_is_dropped() -> None:
    graph = build(Decoder())
    graph.parameters["model.layers.0.unused.weight"] = graph.parameters["model.norm.weight"]
    assert mapped(graph).map("model.layers.0.unused.weight") is None


def test_a_tied_head_is_left_to_the_loader() -> None:
    weights = mapped(build(Decoder(tied=True)))
    assert weights.map("lm_head.weight") == ("lm_head.weight", None)


def test_what_names_alone_cannot_load_is_refused() -> None:
    graph = build(Decoder())
    sources = ("model.layers.*.mlp.down_a.weight", "model.layers.*.mlp.down_b.weight")
    graph.renames = [Rename(sources, "model.layers.*.mlp.down_proj.weight", ("concatenate:0",))]
    with pytest.raises(LoweringError, match="concatenate:0"):
        mapped(graph)


def test_two_tensors_for_one_place_are_refused() -> None:
    graph = Graph("TinyForCausalLM", "tiny", {})
    graph.parameters = {"a.weight": None, "b.weight": None}  # type: ignore[misc]
    members = [Member("c", "ReplicatedLinear", [], {}, WHERE, "pair", sources=[name]) for name in "ab"]
    with pytest.raises(WeightMapError, match="both"):
        weight_map(graph, members, [], [])
