"""Tensors written in parts become joins, where the parts make up the last axis once."""

from __future__ import annotations

from typing import Any

import pytest
from kunport_codegen.graph import DType, Graph, Location, Node, Ref
from kunport_codegen.lowering.flow import Flow, Op
from kunport_codegen.lowering.written import join_written

WHERE = Location("model.py", 7)
FIRST, SECOND, EMPTY, ONE, BOTH = range(5)


def joined(first: slice, second: slice, widths: tuple[int, int], base: str = "empty") -> Op:
    """The last of two writes into ``[2, 6]`` after the pass."""
    steps: list[tuple[str, tuple[Any, ...], tuple[int, ...]]] = [
        ("input", ("a",), (2, widths[0])),
        ("input", ("b",), (2, widths[1])),
        (base, ((2, 6),), (2, 6)),
        ("setitem", (Ref(EMPTY), (Ellipsis, first), Ref(FIRST)), (2, 6)),
        ("setitem", (Ref(ONE), (Ellipsis, second), Ref(SECOND)), (2, 6)),
    ]
    graph = Graph("TinyForCausalLM", "tiny", {})
    ops = []
    for place, (op, args, shape) in enumerate(steps):
        graph.nodes.append(Node(place, op, args, {}, shape, DType("model"), 0, WHERE))
        ops.append(Op(op, args, {}, [place], "", WHERE))
    flow = Flow(graph, ops, BOTH)
    join_written(flow)
    return flow.ops[-1]


@pytest.mark.parametrize("base", ["empty", "zeros", "ones"])
def test_parts_are_joined_in_the_order_of_their_places(base: str) -> None:
    op = joined(slice(None, 4), slice(4, None), (4, 2), base)
    assert (op.name, op.args, op.kwargs) == ("cat", ([Ref(FIRST), Ref(SECOND)],), {"dim": -1})
    op = joined(slice(2, None), slice(None, 2), (4, 2), base)
    assert (op.name, op.args) == ("cat", ([Ref(SECOND), Ref(FIRST)],))


@pytest.mark.parametrize(
    ("first", "second", "widths", "base"),
    [
        (slice(None, 3), slice(4, None), (3, 2), "empty"),
        (slice(None, 5), slice(4, None), (5, 2), "empty"),
        (slice(None, 4), slice(4, 5), (4, 1), "empty"),
        (slice(None, None, 2), slice(1, None, 2), (3, 3), "empty"),
        (slice(None, 4), slice(4, None), (4, 2), "clone"),
    ],
    ids=["a gap", "an overlap", "an end left out", "in turn", "on something"],
)
def test_what_is_no_join_stays_what_it_is(first: slice, second: slice, widths: tuple[int, int], base: str) -> None:
    assert joined(first, second, widths, base).name == "setitem"


def test_a_part_that_is_scaled_where_it_lies_is_read_of_what_was_there_first() -> None:
    first, second = ((slice(None, None, None), each) for each in (slice(None, 4), slice(4, None)))
    steps = [
        ("ones", ((2, 6),), (2, 6)),
        ("getitem", (Ref(0), first), (2, 4)),
        ("mul", (Ref(1), 2.0), (2, 4)),
        ("setitem", (Ref(0), first, Ref(2)), (2, 6)),
        ("getitem", (Ref(3), second), (2, 2)),
        ("mul", (Ref(4), 3.0), (2, 2)),
        ("setitem", (Ref(3), second, Ref(5)), (2, 6)),
    ]
    graph, ops = Graph("TinyForCausalLM", "tiny", {}), []
    for place, (op, args, shape) in enumerate(steps):
        graph.nodes.append(Node(place, op, args, {}, shape, DType("model"), 0, WHERE))
        ops.append(Op(op, args, {}, [place], "", WHERE))
    flow = Flow(graph, ops, 6)
    join_written(flow)
    assert [op.name for op in flow.ops] == ["ones", "getitem", "mul", "getitem", "mul", "cat"]
    assert [op.args[0] for op in flow.ops if op.name == "getitem"] == [Ref(0), Ref(0)]


def test_parts_of_a_vector_are_joined() -> None:
    graph, ops = Graph("TinyForCausalLM", "tiny", {}), []
    steps: list[tuple[str, tuple[Any, ...], int]] = [
        ("input", ("a",), 4),
        ("input", ("b",), 2),
        ("empty", ((6,),), 6),
        ("setitem", (Ref(EMPTY), slice(None, 4), Ref(FIRST)), 6),
        ("setitem", (Ref(ONE), slice(-2, None), Ref(SECOND)), 6),
    ]
    for place, (op, args, size) in enumerate(steps):
        graph.nodes.append(Node(place, op, args, {}, (size,), DType("model"), 0, WHERE))
        ops.append(Op(op, args, {}, [place], "", WHERE))
    flow = Flow(graph, ops, BOTH)
    join_written(flow)
    assert (flow.ops[-1].name, flow.ops[-1].args) == ("cat", ([Ref(FIRST), Ref(SECOND)],))
