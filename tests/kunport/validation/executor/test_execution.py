"""The executor on small graphs made by hand: sizes, dtypes, state, loops, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from kunport.errors import KunportError
from kunport.validation.executor import advance, execute, execute_nodes, steps
from kunport_codegen.expression import Expr, Scalar, apply, field, symbol
from kunport_codegen.graph import Body, DType, Graph, Guard, Location, Node, Parameter, Ref

MODEL, INT64, FLOAT32 = DType("model"), DType("int64"), DType("float32")
BATCH, SEQUENCE = symbol("batch", 2), symbol("sequence", 11)
WIDTH = field("sizes['width']", 4)
WHERE = Location("modeling_toy.py", 7)


class Builder:
    """Collects nodes; each call gives a reference to the new one."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def __call__(self, op: str, *args: Any, at: int = 0, shape: Any = None, body: Any = None, **kwargs: Any) -> Ref:
        node = Node(at or len(self.nodes), op, args, kwargs, shape, None, 1, WHERE, body)
        self.nodes.append(node)
        return Ref(node.id)

    def graph(self, output: Ref, **fields: Any) -> Graph:
        config = {"sizes": {"width": 4}, "names": ["a", "b"]}
        parameters = {"table": Parameter("table", (8, WIDTH), MODEL), "scale": Parameter("scale", (4,), FLOAT32)}
        return Graph("Toy", "toy", config, self.nodes, parameters=parameters, output=output, **fields)


@pytest.fixture
def tokens() -> torch.Tensor:
    return torch.arange(6).reshape(2, 3)


TENSORS = {"table": torch.randn(8, 4), "scale": torch.randn(4)}


def test_scalars_are_worked_out_at_the_sizes_of_the_run(tokens: torch.Tensor) -> None:
    add = Builder()
    states = add("embedding", add("input", "input_ids"), add("parameter", "table"))
    flat = add("reshape", states, apply("mul", BATCH, SEQUENCE), apply("floordiv", WIDTH, 2), -1)
    scaled = add("mul", flat, apply("pow", WIDTH, -0.5))
    expected = torch.nn.functional.embedding(tokens, TENSORS["table"]).reshape(6, 2, 2) * 0.5
    assert torch.equal(execute(add.graph(scaled), TENSORS, tokens), expected)


def test_slices_lists_and_names_reach_torch(tokens: torch.Tensor) -> None:
    add = Builder()
    ids = add("input", "input_ids")
    first = add("getitem", ids, (slice(None), slice(None, apply("sub", SEQUENCE, 1))))
    both = add("cat", [first, ids], dim=-1)
    made = add("zeros", BATCH, 1, dtype=INT64, device="cuda")
    joined = add("cat", (both, made), dim=-1)
    expected = torch.cat([tokens[:, :2], tokens, torch.zeros(2, 1, dtype=torch.int64)], -1)
    assert torch.equal(execute(add.graph(joined), TENSORS, tokens), expected)


def test_model_dtype_is_that_of_the_tensors_or_the_wanted_one(tokens: torch.Tensor) -> None:
    add = Builder()
    table, scale = add("parameter", "table"), add("parameter", "scale")
    ones = add("ones", 4, dtype=MODEL)
    values = execute_nodes(add.graph(ones), TENSORS, tokens, [0, 1, 2], dtype=torch.bfloat16)
    assert [values[ref.id].dtype for ref in (table, scale, ones)] == [torch.bfloat16, torch.float32, torch.bfloat16]
    halves = {name: tensor.half() for name, tensor in TENSORS.items()}
    assert execute(add.graph(ones), halves, tokens).dtype == torch.float16


def test_tied_tensors_are_found_under_the_other_name(tokens: torch.Tensor) -> None:
    add = Builder()
    head = add("parameter", "head")
    assert torch.equal(execute(add.graph(head, tied=[("head", "table")]), TENSORS, tokens), TENSORS["table"])
    with pytest.raises(KunportError, match="no tensor head"):
        execute(add.graph(head), TENSORS, tokens)


def test_results_of_several_and_sizes_of_data(tokens: torch.Tensor) -> None:
    add = Builder()
    found = add("where", add("gt", add("input", "input_ids"), 3))
    rows = add("item", found, 0, shape=(symbol("found", 13),))
    counted = add("full", (Scalar(13, Expr("symbol", ("found",))),), 1)
    assert execute(add.graph(counted), TENSORS, tokens).shape == (2,)
    assert torch.equal(execute_nodes(add.graph(rows), TENSORS, tokens, [rows.id])[rows.id], torch.tensor([1, 1]))


def test_writes_leave_the_old_value_alone(tokens: torch.Tensor) -> None:
    add = Builder()
    old = add("zeros", 3)
    ops = [
        add("setitem", old, 0, 5.0),
        add("index_add", old, 0, add("tensor", [1]), add("ones", 1)),
        add("add_", old, 2.0),
        add("copy_", old, add("ones", 3)),
        add("masked_fill_", old, add("eq", old, 0.0), 7.0),
    ]
    values = execute_nodes(add.graph(old), {}, tokens, [old.id, *(ref.id for ref in ops)])
    expected = [[5, 0, 0], [0, 1, 0], [2, 2, 2], [1, 1, 1], [7, 7, 7]]
    assert [values[ref.id].tolist() for ref in ops] == expected
    assert values[old.id].tolist() == [0, 0, 0]


def test_numbers_may_stand_on_the_left(tokens: torch.Tensor) -> None:
    add = Builder()
    two = add("full", (1,), 2.0)
    results = [add(op, 3, two) for op in ("sub", "div", "pow", "floor_divide", "remainder", "add", "mul")]
    values = execute_nodes(add.graph(two), {}, tokens, [ref.id for ref in results])
    assert [values[ref.id].item() for ref in results] == [1.0, 1.5, 9.0, 1.0, 1.0, 5.0, 6.0]
    assert execute(add.graph(add("div", two, 4, rounding_mode="floor")), {}, tokens).item() == 0.0


def loop(skip: bool) -> tuple[Builder, Ref]:
    """Sums the squares of the rows that are not 3, and counts them."""
    add, inside = Builder(), Builder()
    rows = add("tensor", [[1.0], [3.0], [2.0]])
    start, count, three = add("zeros", 1), add("tensor", 0), add("tensor", [3.0])
    inside("eq", Ref(50), three, at=51)
    inside("squeeze", Ref(51), 0, at=52)
    inside("mul", Ref(50), Ref(50), at=53)
    inside("add", Ref(60), Ref(53), at=54)
    inside("add", Ref(61), 1, at=55)
    body = Body(50, inside.nodes, [(60, start, Ref(54)), (61, count, Ref(55))], Ref(52) if skip else None)
    looped = add("loop", rows, body=body)
    return add, add("add", add("item", looped, 0), add("item", looped, 1))


@pytest.mark.parametrize(("skip", "expected"), [(True, 7.0), (False, 17.0)])
def test_loops_carry_values_and_skip_turns(skip: bool, expected: float, tokens: torch.Tensor) -> None:
    add, total = loop(skip)
    assert execute(add.graph(total), {}, tokens).item() == expected


def test_values_inside_a_loop_can_be_asked_for(tokens: torch.Tensor) -> None:
    add, total = loop(False)
    assert execute_nodes(add.graph(total), {}, tokens, [53])[53].item() == 4.0


def test_only_what_the_result_needs_is_run(tokens: torch.Tensor) -> None:
    add = Builder()
    add("unknown", "a call that nothing reads")
    add("matmul", add("ones", 2), add("ones", 3))
    result = add("ones", 1)
    graph = add.graph(result)
    assert [node.op for node, _ in steps(graph, {}, tokens, [result.id])] == ["ones"]
    assert execute(graph, {}, tokens).item() == 1.0


def test_refusals_name_the_reason_and_the_line(tokens: torch.Tensor) -> None:
    add = Builder()
    unknown = add("add", add("unknown", "a call of torch.compile"), 1)
    refused = add("matmul", add("ones", 2), add("ones", 3))
    fieldless = add("zeros", field("missing", 3))
    nameless = add("frobnicate", add("ones", 2))
    other = add("input", "pixel_values")
    for ref, reason in (
        (unknown, r"torch.compile \(modeling_toy.py:7\)"),
        (refused, r"torch refuses matmul \(%\d+, modeling_toy.py:7\)"),
        (fieldless, "config.missing cannot be worked out"),
        (nameless, "no torch function for the operator frobnicate"),
        (other, "pixel_values"),
    ):
        with pytest.raises(KunportError, match=reason):
            execute(add.graph(ref), TENSORS, tokens)


def test_a_decision_on_a_size_holds_or_the_graph_is_refused(tokens: torch.Tensor) -> None:
    add = Builder()
    output = add("embedding", add("input", "input_ids"), add("parameter", "table"))
    decision = Guard(Expr("gt", (SEQUENCE.expr, Expr("const", (2,)))), True, WHERE)
    graph = add.graph(output, sizes=[decision])
    execute(graph, TENSORS, tokens)
    with pytest.raises(KunportError, match="sequence > 2 is True"):
        execute(graph, TENSORS, tokens[:, :2])


def test_cache_is_read_and_left(tokens: torch.Tensor) -> None:
    """A running sum of the embeddings, by two graphs."""
    first, then = Builder(), Builder()
    total = first("sum", first("embedding", first("input", "input_ids"), first("parameter", "table")), 1)
    prefill = first.graph(first("unsqueeze", total, 1), states={"total": total})
    token = then("embedding", then("input", "input_ids"), then("parameter", "table"))
    total = then("add", then("state", "total"), then("squeeze", token, 1))
    step = then.graph(then("mul", then("unsqueeze", total, 1), symbol("past", 11)), states={"total": total})
    _, cache = advance(prefill, TENSORS, tokens)
    assert cache.past == 3
    for count in (3, 4):
        logits, cache = advance(step, TENSORS, tokens[:, :1], cache)
        assert torch.allclose(logits, cache.states["total"][:, None] * count)
    again = tokens[:, [0, 1, 2, 0, 0]]
    assert torch.allclose(cache.states["total"], TENSORS["table"][again].sum(1))


def test_number_of_a_turn(tokens: torch.Tensor) -> None:
    """A loop over positions whose body cuts by the turn's number."""
    add = Builder()
    states = add("embedding", add("input", "input_ids"), add("parameter", "table"))
    start = add("sum", add("mul", states, 0), 1)
    rows = add("arange", 0, SEQUENCE, 1)
    turn = symbol("turn_50", 0)
    nodes = [
        Node(51, "getitem", (states, (slice(None), slice(turn, apply("add", turn, 1)))), {}, None, None, 1, WHERE),
        Node(52, "sum", (Ref(51), 1), {}, None, None, 1, WHERE),
        Node(53, "add", (Ref(49), Ref(52)), {}, None, None, 1, WHERE),
    ]
    loop = add("loop", rows, body=Body(50, nodes, [(49, start, Ref(53))]))
    got = execute(add.graph(add("item", loop, 0)), TENSORS, tokens)
    assert torch.allclose(got, TENSORS["table"][tokens].sum(1))


def test_pieces_whose_sizes_only_the_data_tell(tokens: torch.Tensor) -> None:
    add = Builder()
    ids = add("input", "input_ids")
    sizes = [add("getitem", ids, (0, place)) for place in range(3)]
    pieces = add("split", add("arange", 0, 3, 1), sizes)
    assert execute(add.graph(add("item", pieces, 2)), TENSORS, tokens).tolist() == [1, 2]
