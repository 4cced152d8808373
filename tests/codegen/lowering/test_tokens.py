"""Token flattening: what each family of operators becomes, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from graph_builder import BATCH, FLOAT32, SEQUENCE, GraphBuilder, Tensor
from kunport_codegen.expression import apply, field
from kunport_codegen.facts import Facts
from kunport_codegen.graph import Ref
from kunport_codegen.lowering.flow import POSITIONS, Flow
from kunport_codegen.lowering.ingest import ingest
from kunport_codegen.lowering.tokens import flatten_tokens
from kunport_codegen.lowering.views import cancel_views

HEADS = field("num_heads", 4)


def flattened(build: GraphBuilder, output: Tensor) -> Flow:
    graph = build.graph(output)
    graph.output = Ref(output.id)
    flow = ingest(graph, Facts())
    flatten_tokens(flow)
    return flow


def hidden(build: GraphBuilder, *sizes: Any) -> Tensor:
    """``[batch, sequence, *sizes]``, from the token ids."""
    ids = build.apply("add", build.arange(SEQUENCE).unsqueeze(0).expand((BATCH, SEQUENCE)), 1)
    table = build.parameter("table", 9, apply("mul", sizes[0], sizes[1]) if len(sizes) == 2 else sizes[0])
    vectors = build.apply("embedding", ids, table)
    return vectors if len(sizes) == 1 else vectors.reshape((BATCH, SEQUENCE, *sizes))


def last(flow: Flow) -> Any:
    return next(op for op in flow.ops if op.results == [flow.output])


def test_positions_are_those_of_the_engine() -> None:
    build = GraphBuilder()
    flow = flattened(build, build.arange(SEQUENCE).unsqueeze(0).to(FLOAT32) * 2.0)
    assert Ref(POSITIONS) in flow.ops[0].args
    assert [op.name for op in flow.ops] == ["to", "mul"]


def test_moving_heads_before_the_sequence_is_nothing() -> None:
    build = GraphBuilder()
    x = hidden(build, HEADS, 4)
    flow = flattened(build, x.transpose(1, 2).tanh().transpose(1, 2))
    assert [op.name for op in flow.ops][-3:] == ["embedding", "view", "tanh"]
    assert flow.layouts[flow.output].sizes == (HEADS, 4)


def test_heads_and_their_elements_keep_their_order_by_a_permutation() -> None:
    build = GraphBuilder()
    flow = flattened(build, hidden(build, HEADS, 2).permute((0, 3, 1, 2)))
    assert last(flow).name == "permute"
    assert last(flow).args[1] == (0, 2, 1)


@pytest.mark.parametrize(("dim", "expected"), [(-1, -1), (3, -1), (2, -2)])
def test_axes_are_counted_from_the_end(dim: int, expected: int) -> None:
    build = GraphBuilder()
    flow = flattened(build, hidden(build, HEADS, 4).softmax(dim=dim))
    assert last(flow).kwargs["dim"] == expected


def test_places_in_a_token_are_counted_from_the_end() -> None:
    build = GraphBuilder()
    x = hidden(build, HEADS, 4)
    index = x.topk(2, dim=-1).item(1)
    flow = flattened(build, x.gather(dim=3, index=index))
    assert last(flow).args[1:] == (-1, Ref(index.id))
    moved = flattened(build, x.zeros_like().scatter(-1, index, src=x.tanh()))
    assert last(moved).args[1:3] == (-1, Ref(index.id))
    assert not last(moved).kwargs


@pytest.mark.parametrize("how", ["another's tokens", "across tokens", "a product"])
def test_places_of_other_tokens_are_refused(how: str) -> None:
    build = GraphBuilder()
    x = hidden(build, 8)
    index = x.topk(2, dim=-1).item(1)
    if how == "another's tokens":
        out = x.gather(2, build.parameter("places", 3, 7, 2))
    elif how == "across tokens":
        out = x.gather(1, index)
    else:
        out = x.scatter(2, index, x, reduce="multiply")
    (refusal,) = flattened(build, out).refusals
    assert refusal.op in ("gather", "scatter")


def test_one_hot_numbers_lie_behind_those_they_are_of() -> None:
    build = GraphBuilder()
    flow = flattened(build, hidden(build, 8).topk(2, dim=-1).item(1).one_hot(num_classes=8).sum(dim=2))
    assert (last(flow).name, last(flow).kwargs["dim"]) == ("sum", -2)
    assert flow.layouts[flow.output].sizes == (8,)


@pytest.mark.parametrize("split", [True, False])
def test_what_each_token_has_is_split_into_groups_of_the_configuration(split: bool) -> None:
    experts, groups = field("experts", 8), field("groups", 4)
    build = GraphBuilder({"experts": 8, "groups": 4})
    rows = hidden(build, experts).reshape((-1, experts))
    size = apply("floordiv", experts, groups) if split else 1
    flow = flattened(build, rows.reshape((-1, groups, size)).tanh().reshape((-1, experts)).exp())
    if split:
        assert flow.layouts[flow.output].sizes == (experts,)
        assert not flow.refusals
    else:
        assert "in its own way" in flow.refusals[0].reason


def test_a_product_with_a_matrix_of_each_head_is_one_of_each_token() -> None:
    build = GraphBuilder()
    rows = hidden(build, 8).reshape((1, apply("mul", BATCH, SEQUENCE), 8)).expand((HEADS, -1, -1))
    flow = flattened(build, build.apply("bmm", rows, build.parameter("matrices", HEADS, 8, 5)))
    assert (last(flow).name, last(flow).args[0]) == ("einsum", "thd,hde->the")
    assert flow.layouts[flow.output].sizes == (HEADS, 5)
    (refusal,) = flattened(build, build.apply("bmm", rows, rows.transpose(1, 2))).refusals
    assert "across tokens" in refusal.reason


def test_matrices_of_each_token_are_multiplied_one_by_one() -> None:
    build = GraphBuilder()
    x = hidden(build, HEADS, 4)
    flow = flattened(build, build.apply("matmul", x, x.transpose(2, 3)))
    assert last(flow).name == "matmul"
    assert flow.layouts[flow.output].sizes == (HEADS, HEADS)
    (refusal,) = flattened(build, build.apply("matmul", x.transpose(1, 2), x.permute((0, 2, 3, 1)))).refusals
    assert "across tokens" in refusal.reason


@pytest.mark.parametrize(
    ("times", "expected", "sizes"),
    [((1, 1, 2, 1), (1, 2, 1), (8, 4)), ((3, 1, 1, 1, 2), (1, 3, 1, 2), (3, 4, 8))],
)
def test_copies_are_made_of_what_each_token_has(times: Any, expected: Any, sizes: tuple[int, ...]) -> None:
    build = GraphBuilder()
    flow = flattened(build, hidden(build, 4, 4).repeat(times))
    assert (last(flow).name, last(flow).args[1]) == ("repeat", expected)
    assert flow.layouts[flow.output].sizes == sizes


def test_copies_of_tokens_are_refused() -> None:
    build = GraphBuilder()
    (refusal,) = flattened(build, hidden(build, 8).repeat((1, 2, 1))).refusals
    assert (refusal.op, refusal.reason) == ("repeat", "it repeats tokens")


def test_parts_that_an_axis_is_taken_apart_into_lack_it() -> None:
    build = GraphBuilder()
    flow = flattened(build, hidden(build, 3, 4).unbind(2).item(1))
    assert [(op.name, op.kwargs) for op in flow.ops][-2] == ("unbind", {"dim": -2})
    assert flow.layouts[flow.output].sizes == (4,)


def test_positions_for_several_axes_are_copies_of_those_of_the_engine() -> None:
    build = GraphBuilder()
    axes = build.arange(SEQUENCE).add(0).reshape((1, 1, SEQUENCE)).expand((3, BATCH, SEQUENCE))
    flow = flattened(build, axes[1:].to(FLOAT32).tanh())
    assert [op.name for op in flow.ops] == ["view", "expand", "getitem", "to", "tanh"]
    assert flow.layouts[flow.output].sizes == (2,)


def test_an_operand_without_tokens_is_brought_to_the_axes_that_remain() -> None:
    build = GraphBuilder()
    weight = build.parameter("weight", HEADS, 1, 4)
    flow = flattened(build, hidden(build, HEADS, 4).transpose(1, 2) * weight)
    view = next(op for op in flow.ops if op.name == "view" and op.args == (Ref(weight.id),))
    assert flow.layouts[view.results[0]].sizes == (HEADS, 4)


def test_whole_slices_of_the_sequence_vanish() -> None:
    build = GraphBuilder()
    x = hidden(build, 8)
    flow = flattened(build, x[:, 0:, :])
    assert flow.output == x.id
    flow = flattened(build, x[:, :, None, 2:6])
    assert last(flow).args[1] == (slice(None), None, slice(2, 6))


def test_reshapes_change_what_is_behind_the_tokens() -> None:
    build = GraphBuilder()
    x = hidden(build, HEADS, 4)
    flow = flattened(build, x.reshape((BATCH, SEQUENCE, -1)).reshape((-1, 16)))
    cancel_views(flow)
    assert [op.name for op in flow.ops] == ["parameter", "add", "embedding"]


CROSSING = {
    "cumsum": lambda build, x: x.cumsum(1),
    "mean": lambda build, x: x.mean(dim=1),
    "softmax": lambda build, x: x.softmax(dim=0),
    "getitem": lambda build, x: x[:, -1:],
    "matmul": lambda build, x: x @ x.transpose(1, 2),
    "roll": lambda build, x: x.roll(1),
    "reshape": lambda build, x: x.transpose(1, 2).reshape((BATCH, -1)),
    "sum": lambda build, x: x.sum(),
}


@pytest.mark.parametrize("op", CROSSING)
def test_what_computes_across_tokens_is_refused_with_operator_and_line(op: str) -> None:
    build = GraphBuilder()
    x = hidden(build, 8)
    flow = flattened(build, CROSSING[op](build, x))
    (refusal,) = flow.refusals
    assert refusal.op == op
    assert refusal.where.file == "model.py"
    assert str(refusal).startswith(f"model.py:{refusal.where.line}: {op}: ")


def test_one_refusal_does_not_hide_another_and_brings_no_others() -> None:
    build = GraphBuilder()
    x = hidden(build, 8)
    first, second = x.cumsum(1).tanh(), x[:, -1:].exp()
    flow = flattened(build, first + second)
    assert [refusal.op for refusal in flow.refusals] == ["cumsum", "getitem"]


def test_an_unknown_operator_is_refused_where_it_reaches_the_output() -> None:
    build = GraphBuilder()
    x = hidden(build, 8)
    graph = build.graph(x)
    graph.nodes[-1].op, graph.nodes[-1].args = "unknown", ("a call of mystery", *graph.nodes[-1].args)
    graph.output = Ref(x.id)
    (refusal,) = ingest(graph, Facts()).refusals
    assert "a call of mystery" in refusal.reason
