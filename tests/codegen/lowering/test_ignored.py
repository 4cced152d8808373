"""What is left aside where the model has no place for it: as beginnings and endings, and never more than the source says."""

from __future__ import annotations

import re

import pytest
from decoders import Decoder, build
from hypothesis import given
from hypothesis import strategies as st
from kunport_codegen.graph import Rename
from kunport_codegen.lowering import lower
from kunport_codegen.lowering.ignored import Ignored, ignored
from kunport_codegen.recognition import recognize


def told(*patterns: str) -> Ignored:
    return ignored(patterns, lambda name: (name, None))


def left_aside(rules: Ignored, name: str, place: int) -> bool:
    """Whether vLLM's loader leaves a tensor aside that it has no module or parameter for from ``place`` parts on."""
    path = ".".join(name.split(".")[:place])
    return any(
        text.startswith(tuple(rules.prefixes)) or text.endswith(tuple(rules.suffixes)) for text in (path, f"{path}.")
    )


@pytest.mark.parametrize(
    ("pattern", "prefixes", "suffixes"),
    [
        ("attention.masked_bias", [], ["attention.masked_bias"]),
        (r"layers\.45\.", [], ["layers.45."]),
        (r".*relative_position_index", [], ["relative_position_index"]),
        (r"^mtp.*", ["mtp"], []),
        (r"^model\.mtp\.", ["model.mtp."], []),
        (r"(^|\.)mtp\..*", ["mtp."], [".mtp."]),
        (r"(?:^|\.)mtp", ["mtp"], [".mtp"]),
        (r"model\.layers\.61.*", ["model.layers.61"], ["model.layers.61"]),
    ],
)
def test_a_literal_is_a_beginning_or_an_ending(pattern: str, prefixes: list[str], suffixes: list[str]) -> None:
    assert told(pattern) == Ignored(prefixes, suffixes)


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        ".",
        ".*",
        "^",
        "^.*",
        r"\.",
        "bias$",
        r"h\.\d+\.bias",
        "a|b",
        "(a+)+$",
        "[",
        "a*",
        r"a\.*",
        r"a\b",
        "é",
        "a\n",
        "a'",
    ],
)
def test_an_expression_of_another_form_is_left_out_and_kept_for_the_reader(pattern: str) -> None:
    assert told("attn.bias", pattern) == Ignored([], ["attn.bias"], [pattern])


PARTS = st.sampled_from(("a", "b", "ab", "ba", "0", "mtp"))
NAMES = st.lists(PARTS, min_size=2, max_size=4).map(".".join)
LITERALS = st.lists(st.sampled_from(("a", "b", "mtp", ".", r"\.", "0")), min_size=1, max_size=4).map("".join)
PATTERNS = st.tuples(st.sampled_from(("", "^", ".*", r"(^|\.)")), LITERALS, st.sampled_from(("", ".*"))).map("".join)


@given(PATTERNS, NAMES, st.data())
def test_no_tensor_is_left_aside_that_the_expression_does_not_name(
    pattern: str, name: str, data: st.DataObject
) -> None:
    place = data.draw(st.integers(1, name.count(".")), "the first part that the model does not have")
    if left_aside(told(pattern), name, place):
        assert re.search(pattern, name)


@pytest.mark.parametrize(
    ("old", "new", "pattern", "prefixes", "suffixes"),
    [
        ("layers.*.mlp.down_proj.weight", "model.layers.*.mlp.down_proj.weight", "^layers.9", ["model.layers.9"], []),
        (
            "model.layers.*.block.o_proj.weight",
            "model.layers.*.attention.o_proj.weight",
            "block.bias",
            [],
            ["attention.bias"],
        ),
    ],
)
def test_names_are_those_that_the_loader_asks_about(
    old: str, new: str, pattern: str, prefixes: list[str], suffixes: list[str]
) -> None:
    graph = build(Decoder())
    graph.renames, graph.ignored = [Rename((old,), new)], [pattern]
    assert lower(graph, recognize(graph)).weights.ignored == Ignored(prefixes, suffixes)


def test_a_part_of_a_packed_layer_is_left_out_of_what_the_loader_is_told() -> None:
    graph = build(Decoder())
    graph.ignored = ["q_proj.bias"]
    assert lower(graph, recognize(graph)).weights.ignored == Ignored(untold=["q_proj.bias"])


def test_a_tensor_of_the_model_keeps_its_place_whatever_is_ignored() -> None:
    graph = build(Decoder())
    plain = lower(graph, recognize(graph)).weights
    graph.ignored = ["model", "o_proj", "weight"]
    weights = lower(graph, recognize(graph)).weights
    assert weights.ignored.suffixes == ["model", "o_proj", "weight"]
    assert [weights.map(name) for name in graph.parameters] == [plain.map(name) for name in graph.parameters]
