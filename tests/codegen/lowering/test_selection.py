"""Values that differ by layer, as expressions on the layer's index."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kunport_codegen.expression import Expr, Scalar, const
from kunport_codegen.expression import field as config_field
from kunport_codegen.graph import Graph, Guard, Location, Module
from kunport_codegen.lowering.members import Choice
from kunport_codegen.lowering.selection import DifferentLayersError, Selector, generalize, indexed, read

WHERE = Location("model.py", 1)


def selector(config: dict[str, object], *guards: Expr, count: int = 4) -> Selector:
    graph = Graph("TinyForCausalLM", "tiny", config, guards=[Guard(guard, True, WHERE) for guard in guards])
    return Selector(graph, count)


def test_items_of_a_list_are_indexed() -> None:
    found = selector({"heads": [1, 2, 3, 4]}).merge([config_field(f"heads[{i}]", i + 1) for i in range(4)])
    assert str(found) == "config.heads[layer_idx]"


def test_numbers_that_count_layers_follow_the_index() -> None:
    expressions = [Expr("mul", (const(i + 1), Expr("field", ("step",)))) for i in range(4)]
    assert str(generalize(expressions)) == "(layer_idx + 1) * config.step"


def test_a_condition_of_the_source_is_found_in_its_guards() -> None:
    """``(layer + 1) % interval``, of which the source saw a number for each layer."""
    guards = [Expr("eq", (Expr("mod", (const(i + 1), Expr("field", ("interval",)))), const(0))) for i in range(4)]
    window = config_field("window", 8)
    found = selector({"interval": 2, "window": 8}, *guards).merge([None, window, None, window])
    assert isinstance(found, Choice)
    assert "(layer_idx + 1) % config.interval == 0" in str(found.test)


@pytest.mark.parametrize(
    ("truth", "text"),
    [
        ([True, False, False, True], "layer_idx in (0, 3)"),
        ([False, True, False, False], "layer_idx == 1"),
        ([True, True, False, True], "layer_idx != 2"),
        ([True, False, True, True, False, True], "layer_idx not in (1, 4)"),
    ],
)
def test_layers_that_the_source_tells_apart_in_no_one_way_are_numbered(truth: list[bool], text: str) -> None:
    """``layer in config.some and layer % config.interval``: guards hold the configuration to each of both."""
    guards = [Expr("in", (const(i), Expr("field", ("some",)))) for i in range(len(truth))]
    found = selector({"some": [], "num_hidden_layers": len(truth)}, *guards, count=len(truth))
    assert str(found.test(truth)) == text
    assert [str(guard.expr) for guard in found.guards] == [f"config.num_hidden_layers == {len(truth)}"]


def test_numbers_by_a_formula_of_the_index_are_listed_for_so_many_layers() -> None:
    found = selector({"num_hidden_layers": 4})
    found.graph.modules[""] = Module("", "Tiny", None, WHERE)
    assert str(found.merge([0.2, 0.35, 0.47, 0.55])) == "(0.2, 0.35, 0.47, 0.55)[layer_idx]"
    assert [str(guard.expr) for guard in found.guards] == ["config.num_hidden_layers == 4"]
    with pytest.raises(DifferentLayersError):
        selector({}).merge([0.2, 0.35, 0.47, 0.55])


@pytest.mark.parametrize(
    ("keys", "written"),
    [(("1", "3"), "str(layer_idx)"), (("05", "11"), "str(layer_idx).zfill(2)"), (("5", "11"), None)],
)
def test_what_some_layers_have_of_their_own_is_found_by_their_number(keys: tuple[str, ...], written: str) -> None:
    numbers = [int(key) for key in keys]
    paths = [Expr("field", (f"own['{key}']['size']",)) for key in keys]
    found = generalize(paths, numbers)
    assert (str(found) if found else None) == (f"config.own[{written}]['size']" if written else None)


def test_three_values_are_told_apart_by_two_conditions() -> None:
    found = selector({"kinds": ["a", "b", "c", "a"]}).merge([1, 2, 3, 1])
    assert isinstance(found, Choice)
    assert isinstance(found.otherwise, Choice)


def test_entries_of_a_dictionary_are_taken_by_the_layers_kind() -> None:
    config = {"kinds": ["near", "far"], "rope": {"near": {}, "far": {}}}
    values = [Expr("field", ("rope['near']",)), Expr("field", ("rope['far']",))]
    assert str(selector(config, count=2).merge(values)) == "config.rope[config.kinds[layer_idx]]"


def test_what_nothing_tells_apart_is_an_error() -> None:
    with pytest.raises(DifferentLayersError):
        selector({"kinds": ["a", "a", "b", "b"]}).merge([1, 2, 1, 2])


@given(st.lists(st.booleans(), min_size=2, max_size=8))
def test_a_condition_found_is_right_for_every_layer(truth: list[bool]) -> None:
    config = {"flags": truth, "kinds": ["x" if each else "y" for each in truth]}
    found = selector(config, count=len(truth))
    if len(set(truth)) == 1:
        return
    test = found.test(truth)
    assert [bool(found.value(test, index)) for index in range(len(truth))] == truth


@given(st.integers(0, 3), st.text(alphabet="abc_", min_size=1, max_size=5))
def test_indexing_and_reading_agree(index: int, name: str) -> None:
    config = {name: [10, 11, 12, 13]}
    (general,) = indexed(Expr("field", (f"{name}[{index}]",)))
    assert read(config, general.args[0].replace("layer_idx", str(index))) == 10 + index


def test_scalars_are_the_same_only_with_their_expressions() -> None:
    merged = selector({"a": [1, 2, 3, 4]}).merge([Scalar(1, Expr("field", ("x",)))] * 4)
    assert str(merged.expr) == "config.x"
