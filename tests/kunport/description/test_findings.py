import pytest
from hypothesis import given
from hypothesis import strategies as st
from kunport.description.findings import Finding, merge, name_layers
from kunport_codegen.graph import Location

HERE, THERE = Location("modeling.py", 1), Location("modeling.py", 2)


@pytest.mark.parametrize(
    ("layers", "depth", "name"),
    [
        ([], 4, ""),
        ([3], 4, "layer 3"),
        ([0, 1, 2, 3], 4, "layers 0-3"),
        ([1, 3, 5], 6, "every 2nd layer from 1"),
        ([0, 3, 6], 8, "every 3rd layer from 0"),
        ([0, 1, 2, 4, 5, 6], 8, "all layers but every 4th from 3"),
        ([0, 1, 2, 3, 4, 6, 7, 8, 9, 10], 12, "all layers but every 6th from 5"),
        ([0, 2], 6, "layers 0, 2"),  # a progression that stops early is none
        ([0, 1, 2, 5, 7, 8], 9, "layers 0-2, 5, 7-8"),
    ],
)
def test_layers_are_named_as_an_engineer_says_it(layers, depth, name):
    assert name_layers(layers, depth) == name


@given(st.sets(st.integers(0, 40), min_size=1))
def test_different_layers_have_different_names(layers):
    everything = range(41)
    name = name_layers(sorted(layers), 41)
    assert name
    for other in ({layer + 1 for layer in layers if layer < 40}, set(everything) - layers):
        if other and other != layers:
            assert name_layers(sorted(other), 41) != name


def test_findings_of_several_layers_become_one_line_in_order_of_appearance():
    lines = merge(
        [Finding("b", HERE, 0), Finding("a", HERE, 0, usual=False), Finding("b", HERE, 1), Finding("c", HERE)]
    )
    assert [(line.text, line.layers, line.usual) for line in lines] == [
        ("b", (0, 1), True),
        ("a", (0,), False),
        ("c", (), True),
    ]


def test_what_is_said_twice_of_a_layer_is_said_of_the_first_line():
    lines = merge([Finding("rotated", HERE, 0), Finding("rotated", THERE, 0), Finding("rotated", THERE, 1)])
    assert [(line.where, line.layers) for line in lines] == [(HERE, (0,)), (THERE, (1,))]
