"""Patterns say no more than what holds."""

from kunport.analysis.renames.generalization import Origin, gathered_pattern, general_renames
from kunport_codegen.graph import Rename


def test_layers_that_agree_become_one_pattern():
    origins = {f"m.{layer}.b": Origin([f"m.{layer}.a"]) for layer in range(3)}
    assert general_renames(origins) == [Rename(("m.*.a",), "m.*.b")]


def test_a_layer_that_differs_keeps_its_number_and_so_do_those_that_its_pattern_would_cover():
    origins = {"m.0.b": Origin(["m.0.a"]), "m.1.a": Origin(["m.1.a"])}
    assert general_renames(origins) == [Rename(("m.0.a",), "m.0.b")]


def test_numbers_that_are_names_are_kept():
    origins = {"proj_in.weight": Origin(["proj.0.weight"]), "proj_out.weight": Origin(["proj.2.weight"])}
    assert general_renames(origins) == [
        Rename(("proj.0.weight",), "proj_in.weight"),
        Rename(("proj.2.weight",), "proj_out.weight"),
    ]


def test_several_targets_of_one_source_are_no_disagreement():
    origins = {
        f"m.{layer}.{part}": Origin([f"m.{layer}.qk"], (f"chunk:0,{index},2",))
        for layer in range(2)
        for index, part in enumerate("qk")
    }
    assert general_renames(origins) == [
        Rename(("m.*.qk",), "m.*.q", ("chunk:0,0,2",)),
        Rename(("m.*.qk",), "m.*.k", ("chunk:0,1,2",)),
    ]


def test_a_source_that_one_layer_lacks_a_target_of_is_a_disagreement():
    origins = {
        "m.0.q": Origin(["m.0.qk"], ("chunk:0,0,2",)),
        "m.0.k": Origin(["m.0.qk"], ("chunk:0,1,2",)),
        "m.1.q": Origin(["m.1.qk"], ("chunk:0,0,2",)),
    }
    assert all("*" not in rename.target for rename in general_renames(origins) if rename.target.endswith("k"))


def test_a_number_after_the_gathered_one_keeps_all_as_they_are():
    origins = {"m.0.e": Origin(["m.0.e.*.x.0"], ("stack",))}
    assert general_renames(origins) == [Rename(("m.0.e.*.x.0",), "m.0.e", ("stack",))]


def test_gathering_finds_the_number_that_differs():
    assert gathered_pattern(["l.1.e.1.w1", "l.1.e.10.w1"], "e.*.w1") == "l.1.e.*.w1"
    assert gathered_pattern(["l.1.e.1.w1"], "e.*.w1") == "l.1.e.*.w1"
    assert gathered_pattern(["emb.shard_0.weight"], "emb.shard_*.weight") == "emb.shard_*.weight"
    assert gathered_pattern(["l.1.q.weight"], "q.weight") == "l.1.q.weight"
