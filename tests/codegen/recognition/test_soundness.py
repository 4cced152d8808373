"""Whatever is recognised must be true: also on graphs that differ from a known formula in one random point."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from formulas import true_facts
from graph_builder import BATCH, FLOAT32, MODEL, SEQUENCE, GraphBuilder, Tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from kunport.errors import KunportError
from kunport_codegen.expression import unwrap
from kunport_codegen.graph import Graph, Node, Ref
from rotary import configuration, halves, inverse_frequencies, products, tables

pytestmark = pytest.mark.untraced

HEADS, HEAD_DIM = 2, 6
FAMILIES = (
    ("add", "sub", "mul", "div"),
    ("cos", "sin", "tanh", "sigmoid", "neg", "silu", "gelu", "relu", "square", "rsqrt", "sqrt", "exp"),
    ("mean", "sum", "amax"),
)


def norm(build: GraphBuilder, x: Tensor, name: str) -> Tensor:
    y = x.to(FLOAT32)
    y = y * (y.pow(2).mean(dim=-1, keepdim=True) + 1e-2).rsqrt()
    return y.to(MODEL) * build.parameter(name, x.kind.shape[-1])


def layer(style: str, spelling: str, rotary_dim: int) -> Graph:
    """A decoder layer: norms, rotations, attention with a softcap, and a spelled-out activation."""
    build = GraphBuilder(configuration("default"))
    layout = "once" if spelling == "halves" else style
    cos, sin = (each.unsqueeze(1) for each in tables(build, inverse_frequencies(build, rotary_dim), layout))
    hidden = build.parameter("x", BATCH, SEQUENCE, HEADS * HEAD_DIM)
    normed = norm(build, hidden, "input_norm")

    def heads(name: str) -> Tensor:
        projected = normed.linear(build.parameter(name, HEADS * HEAD_DIM, HEADS * HEAD_DIM), None)
        return projected.reshape((BATCH, SEQUENCE, HEADS, HEAD_DIM)).transpose(1, 2)

    def rotated(x: Tensor) -> Tensor:
        turned = (halves if spelling == "halves" else products)(build, x[..., :rotary_dim], cos, sin, style)
        return build.cat(turned, x[..., rotary_dim:])

    query, key = rotated(norm(build, heads("q"), "q_norm")), rotated(heads("k"))
    scores = (query @ key.transpose(2, 3)) * 0.4
    scores = (scores / 3.0).tanh() * 3.0 + build.mask("causal")
    combined = (scores.softmax(dim=-1, dtype=FLOAT32).to(MODEL) @ heads("v")).transpose(1, 2)
    hidden = hidden + combined.reshape((BATCH, SEQUENCE, HEADS * HEAD_DIM))
    gate = hidden.linear(build.parameter("gate", 4, HEADS * HEAD_DIM), None)
    return build.graph(gate * (gate * 1.702).sigmoid())


def mutations(graph: Graph) -> Iterator[tuple[Node, dict[str, Any]]]:
    """Every node with every change of its operator, its numbers or its operands that keeps its shape."""
    earlier: dict[Any, list[Node]] = {}
    for node in graph.nodes:
        if node.op == "parameter":
            continue
        for family in FAMILIES:
            if node.op in family:
                yield from ((node, {"op": op}) for op in family if op != node.op)
        for place, arg in enumerate(node.args):
            for changed in _changed(arg, graph, earlier):
                yield node, {"args": (*node.args[:place], changed, *node.args[place + 1 :])}
        if node.op in ("sub", "div", "matmul"):
            yield node, {"args": node.args[::-1]}
        earlier.setdefault(_kind(node), []).append(node)


def _kind(node: Node) -> Any:
    return (tuple(map(unwrap, node.shape)) if node.shape is not None else node.id), node.dtype


def _changed(arg: Any, graph: Graph, earlier: dict[Any, list[Node]]) -> Iterator[Any]:
    if isinstance(arg, Ref):
        node = next(node for node in graph.nodes if node.id == arg.id)
        yield from (Ref(other.id) for other in earlier.get(_kind(node), ()) if other.id != arg.id)
    elif isinstance(arg, tuple) and any(isinstance(each, Ref) for each in arg):
        yield arg[::-1]
        for place, each in enumerate(arg):
            yield from ((*arg[:place], other, *arg[place + 1 :]) for other in _changed(each, graph, earlier))
    elif isinstance(arg, float):
        yield from (arg * 2, -arg, arg + 1)


@pytest.mark.parametrize("style", ["half", "interleaved"])
@pytest.mark.parametrize("spelling", ["products", "halves"])
def test_the_layer_itself_is_recognised(style, spelling) -> None:
    facts = true_facts(layer(style, spelling, 4))
    assert len(facts.norms) == 2
    assert len(facts.ropes) == 2
    assert len(facts.attentions) == 1
    assert [each.name for each in facts.activations] == ["quick_gelu"]


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_facts_of_a_changed_layer_are_true(data) -> None:
    style, spelling = (
        data.draw(st.sampled_from(("half", "interleaved"))),
        data.draw(st.sampled_from(("products", "halves"))),
    )
    graph = layer(style, spelling, data.draw(st.sampled_from((4, 6))))
    node, change = data.draw(st.sampled_from(list(mutations(graph))))
    place = graph.nodes.index(node)
    graph.nodes[place] = dataclasses.replace(node, **change)
    try:
        true_facts(graph)
    except KunportError as error:
        if "torch refuses" not in str(error):
            raise
