"""What is recognised in one layer and carried over to those that repeat it is what every layer gives by itself."""

from dataclasses import fields, replace
from typing import get_args, get_type_hints

import decoders
import pytest
from decoders import Decoder
from kunport_codegen.expression import Scalar, symbol
from kunport_codegen.facts import Facts
from kunport_codegen.graph import DType, Graph, Location, Node, Ref
from kunport_codegen.recognition import find_all, recognize
from kunport_codegen.recognition.carrying import plan_of
from kunport_codegen.recognition.index import Index
from kunport_codegen.recognition.repeats import repeats_of

pytestmark = pytest.mark.untraced

LAYERS, CHANGED = 8, 4
PLAIN = Decoder(windows=(False,) * LAYERS, rotated=(True,) * LAYERS)
DECODERS = {
    "plain": PLAIN,
    "alternating": replace(PLAIN, windows=(True, False) * 4, rotated=(True, True, True, False) * 2),
    "parallel": replace(PLAIN, residual="parallel", projections="fused", gate="fused", query_norm="head"),
    "sandwich": replace(PLAIN, residual="sandwich", norm="gemma", bias=True, tied=True),
}


def build(decoder: Decoder) -> Graph:
    """The decoder's graph, in which the lines of a layer are those of every other, as one source has them."""
    graph = decoders.build(decoder)
    for frame in graph.frames:
        frame.where = Location("tiny.py", len(frame.path.split(".")))
    for number in range(LAYERS):
        parameters = [each for each in graph.nodes if each.op == "parameter" and f".{number}." in each.args[0]]
        for line, node in enumerate((*layer_of(graph, number), *parameters)):
            node.where = Location("tiny.py", line)
    return graph


def layer_of(graph: Graph, number: int) -> list[Node]:
    frames: set[int] = set()
    for frame in graph.frames:
        if frame.path.endswith(f"layers.{number}") or frame.parent in frames:
            frames.add(frame.id)
    return [node for node in graph.nodes if node.frame in frames]


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
def test_facts_that_are_carried_over_are_those_of_every_layer(decoder):
    graph = build(decoder)
    index = Index(graph)
    found = recognize(graph, index)
    assert found == find_all(Index(graph))
    assert (len(found.norms) >= 2 * LAYERS, len(found.attentions)) == (True, LAYERS)
    assert [fact.frame for fact in found.attentions] == sorted({fact.frame for fact in found.attentions})


def test_every_kind_of_fact_can_be_carried_over():
    kinds = [get_args(each)[0] for each in get_type_hints(Facts).values()]
    assert len(kinds) > 6
    assert all(len(plan_of(kind)) == len(fields(kind)) for kind in kinds)


def test_layers_in_the_middle_repeat_each_other():
    graph = build(PLAIN)
    repeats = repeats_of(Index(graph))
    assert [(lead.number, each.number) for lead, each in repeats.pairs] == [
        (1, number) for number in range(2, LAYERS - 1)
    ]
    assert {node.id for node in layer_of(graph, 3)} <= repeats.nodes


def other_operator(graph, node):
    node.op = "odd"


def other_dtype(graph, node):
    node.dtype = DType("float64")


def other_number(graph, node):
    node.args = tuple(replace(each, value=each.value * 3) if isinstance(each, Scalar) else each for each in node.args)


def other_operand(graph, node):
    node.args = tuple(Ref(graph.nodes[0].id) if isinstance(each, Ref) else each for each in node.args)


def other_size(graph, node):
    node.shape = (*node.shape[:-1], 7) if node.shape else node.shape


def another_reader(graph, node):
    graph.nodes.append(Node(9999, "add", (graph.output, Ref(node.id)), {}, node.shape, node.dtype, 1, node.where))
    graph.output = Ref(9999)


CHANGES = (other_operator, other_dtype, other_number, other_operand, other_size, another_reader)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_layer_in_which_anything_is_different_repeats_none(change):
    graph, spoilt = build(PLAIN), 0
    nodes = layer_of(graph, CHANGED)
    for position, node in enumerate(nodes):
        before, output, count = replace(node), graph.output, len(graph.nodes)
        change(graph, node)
        if (replace(node), graph.output) != (before, output):
            spoilt += 1
            index = Index(graph)
            assert not repeats_of(index).nodes & {each.id for each in nodes}, node
            if position % 16 == 5:
                assert recognize(graph, index) == find_all(Index(graph)), node
        for name in ("op", "dtype", "args", "shape"):
            setattr(node, name, getattr(before, name))
        graph.output = output
        del graph.nodes[count:]
    assert spoilt


def test_a_parameter_of_another_shape_makes_another_layer():
    graph = build(PLAIN)
    path = next(each.args[0] for each in graph.nodes if each.op == "parameter" and f"layers.{CHANGED}." in each.args[0])
    graph.parameters[path] = replace(graph.parameters[path], shape=(5, 5))
    repeated = {each.path for _, each in repeats_of(Index(graph)).pairs}
    assert repeated
    assert not any(each.endswith(f"layers.{CHANGED}") for each in repeated)


@pytest.mark.parametrize("names", [(3, 4, True), (3, 3, True), (2, 3, False), (3, 2, False)])
def test_sizes_that_depend_on_data_may_have_other_names_but_the_same_in_every_place(names):
    """The sizes of two layers' nodes: ``data_1`` and ``data_2`` here, and there the first name again or another."""
    first, second, alike = names
    graph = build(PLAIN)
    for number in range(LAYERS):
        nodes = [node for node in layer_of(graph, number) if node.shape and isinstance(node.shape[0], Scalar)]
        sizes = (1, 2) if number != CHANGED else (first, second)
        if number not in (1, CHANGED):
            sizes = (10 * number, 10 * number + 1)
        for node, size in zip(nodes[:2], sizes, strict=True):
            node.shape = (symbol(f"data_{size}", 13), *node.shape[1:])
    repeated = {each.path for _, each in repeats_of(Index(graph)).pairs}
    expected = first != second
    assert any(each.endswith(f"layers.{CHANGED}") for each in repeated) == expected or not alike
    assert recognize(graph) == find_all(Index(graph))
