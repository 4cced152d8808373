"""Expressions of sizes stay short, and are right at every value of what they name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kunport.analysis.shapes import ShapeError, TensorType, infer, sizes
from kunport.analysis.shapes.algebra import at_least, equal
from kunport_codegen.expression import Scalar, apply, evaluate, expr_of, field, symbol, unwrap, walk
from kunport_codegen.graph import DType

BATCH, SEQUENCE = symbol("batch", 2), symbol("sequence", 11)
HEADS, GROUPS, WIDTH = field("num_heads", 6), field("num_groups", 2), field("hidden_size", 48)
HEAD_DIM = apply("floordiv", WIDTH, HEADS)
MODEL, INT64 = DType("model"), DType("int64")


def shape_of(op: str, *args: Any, **kwargs: Any) -> list[str]:
    result = infer(op, args, kwargs)
    assert isinstance(result, TensorType)
    return [str(size.expr) if isinstance(size, Scalar) else str(size) for size in result.shape]


def hidden(*shape: Any) -> TensorType:
    return TensorType(shape, MODEL)


def test_heads_are_split_and_merged() -> None:
    states = hidden(BATCH, SEQUENCE, apply("mul", HEADS, HEAD_DIM))
    assert shape_of("view", states, BATCH, SEQUENCE, -1, HEAD_DIM)[2] == "config.num_heads"
    heads = hidden(BATCH, SEQUENCE, HEADS, HEAD_DIM)
    merged = shape_of("reshape", heads, BATCH, SEQUENCE, -1)
    assert merged == ["batch", "sequence", "config.num_heads * (config.hidden_size // config.num_heads)"]


def test_tokens_are_flattened() -> None:
    states = hidden(BATCH, SEQUENCE, WIDTH)
    assert shape_of("reshape", states, -1, WIDTH) == ["batch * sequence", "config.hidden_size"]
    assert shape_of("flatten", states, 0, 1) == ["batch * sequence", "config.hidden_size"]
    assert shape_of("view", hidden(apply("mul", BATCH, SEQUENCE), WIDTH), BATCH, -1, WIDTH)[1] == "sequence"


def test_packed_projections_divide_by_a_sum() -> None:
    rows = apply("mul", apply("add", HEADS, apply("mul", 2, GROUPS)), HEAD_DIM)
    assert shape_of("view", hidden(BATCH, SEQUENCE, rows), BATCH, SEQUENCE, -1, HEAD_DIM)[2] == (
        "config.num_heads + 2 * config.num_groups"
    )
    expanded = apply("add", apply("mul", HEADS, HEAD_DIM), apply("mul", apply("mul", HEAD_DIM, GROUPS), 2))
    assert (
        sizes.quotient(sizes.as_size(expanded), sizes.as_size(apply("add", HEADS, apply("mul", GROUPS, 2)))) == HEAD_DIM
    )


def test_halves_make_a_whole() -> None:
    half = apply("floordiv", HEAD_DIM, 2)
    heads = hidden(SEQUENCE, HEAD_DIM)
    first = infer("getitem", (heads, (Ellipsis, slice(None, half))), {})
    second = infer("getitem", (heads, (Ellipsis, slice(half, None))), {})
    assert shape_of("cat", [second, first], dim=-1) == ["sequence", "config.hidden_size // config.num_heads"]
    gate, up = infer("chunk", (hidden(SEQUENCE, apply("mul", 2, WIDTH)), 2), {"dim": -1})  # type: ignore[misc]
    assert gate == up == hidden(SEQUENCE, WIDTH)


def test_causal_convolution_keeps_the_sequence() -> None:
    kernel = field("conv_kernel", 4)
    padded = infer(
        "conv1d",
        (hidden(BATCH, WIDTH, SEQUENCE), hidden(WIDTH, 1, kernel)),
        {
            "padding": apply("sub", kernel, 1),
            "groups": WIDTH,
        },
    )
    assert shape_of("getitem", padded, (Ellipsis, slice(None, SEQUENCE)))[-1] == "sequence"


def test_what_slices_to_the_end_takes_no_minimum() -> None:
    states = hidden(BATCH, SEQUENCE, WIDTH)
    everything = slice(None)
    assert shape_of("getitem", states, (everything, slice(-1, None))) == ["batch", "1", "config.hidden_size"]
    assert shape_of("getitem", states, (everything, slice(1, None)))[1] == "sequence - 1"
    assert shape_of("getitem", states, (everything, slice(None, -1)))[1] == "sequence - 1"
    assert shape_of("getitem", states, (everything, slice(-5, None)))[1] == "min(5, sequence)"
    window = infer("getitem", (states, (everything, slice(None, field("window", 7)))), {})
    rest = infer("getitem", (states, (everything, slice(field("window", 7), None))), {})
    assert shape_of("cat", [window, rest], dim=1)[1] == "sequence"


def test_whole_groups_of_a_size_are_no_longer_than_it() -> None:
    whole = apply("mul", apply("floordiv", SEQUENCE, GROUPS), GROUPS)
    states = hidden(SEQUENCE, WIDTH)
    assert shape_of("getitem", states, slice(None, whole))[0] == "sequence // config.num_groups * config.num_groups"
    rest = infer("getitem", (states, slice(whole, None)), {})
    assert shape_of("cat", [infer("getitem", (states, slice(None, whole)), {}), rest])[0] == "sequence"


def test_numbers_without_names_stay_numbers() -> None:
    assert infer("reshape", (hidden(4, 6), -1, 8), {}) == hidden(3, 8)


def test_sizes_that_data_tell_are_named() -> None:
    mask = TensorType((BATCH, SEQUENCE), DType("bool"))
    rows, columns = infer("where", (mask,), {}, symbol="tokens")  # type: ignore[misc]
    assert rows == columns
    assert str(rows.shape[0].expr) == "tokens"  # type: ignore[union-attr]
    picked = infer("getitem", (hidden(BATCH, SEQUENCE, WIDTH), mask), {}, symbol="tokens")
    assert isinstance(picked, TensorType)
    assert [str(size) for size in picked.shape] == ["13«tokens»", "48«config.hidden_size»"]


@pytest.mark.parametrize(
    ("op", "args", "reason"),
    [
        ("view", (hidden(4, 6), 5, -1), "24 elements do not fill"),
        ("view", (hidden(4, 6), -1, -1), "only one size can be -1"),
        ("matmul", (hidden(4, 6), hidden(5, 6)), "inner sizes 6 and 5 differ"),
        ("add", (hidden(4, 6), hidden(5, 6)), "do not broadcast"),
        ("transpose", (hidden(4, 6), 0, 2), "dimension 2 is out of range"),
        ("getitem", (hidden(4), (0, 0)), "too many indices"),
        ("getitem", (hidden(4), 4), "index 4 is out of range"),
        ("getitem", (hidden(4), hidden(4)), "is no index"),
        ("setitem", (hidden(4), slice(None), hidden(3)), "do not broadcast"),
        ("copy", (hidden(4), hidden(2, 4)), "does not fit"),
        ("cat", ([hidden(4, 6), hidden(4, 5)],), "do not join"),
        ("stack", ([hidden(4), hidden(5)],), "do not stack"),
        ("split_with_sizes", (hidden(4), [1, 2]), "do not make up 4"),
        ("split", (hidden(4), 0), "at least one element"),
        ("expand", (hidden(4), 5), "does not expand"),
        ("expand", (hidden(4, 4), 4), "do not expand"),
        ("permute", (hidden(4, 4), 0, 0), "does not order"),
        ("mean", (TensorType((4,), INT64),), "a mean needs a floating dtype"),
        ("topk", (hidden(4), 5), "no 5 largest"),
        ("einsum", ("ij,jk->ik", hidden(4, 4)), "names 2 operands"),
        ("einsum", ("i->i", hidden(4, 4)), "does not name the dimensions"),
        ("layer_norm", (hidden(4, 6), (4,)), "does not end in"),
        ("arange", (TensorType((), INT64),), "bounds that are tensors"),
        ("reshape", (hidden(4), 2.5), "is not a size"),
        ("add", (hidden(4), "four"), "is not a number"),
        ("add", (TensorType((4,), DType("float8_e4m3fn")), hidden(4)), "takes no part in arithmetic"),
        ("silu", (), "arguments that its shape rule does not know"),
    ],
)
def test_refusals_say_why(op: str, args: tuple[Any, ...], reason: str) -> None:
    with pytest.raises(ShapeError, match=reason):
        infer(op, args, {})


def test_operators_in_place_keep_their_operand() -> None:
    count = TensorType((4,), DType("bfloat16"))
    assert infer("add_", (count, TensorType((4,), DType("float32"))), {}) == count


NAMES = ["batch", "sequence", "heads", "width"]
leaves = st.one_of(
    st.sampled_from([symbol(name, 6) for name in NAMES[:2]] + [field(name, 6) for name in NAMES[2:]]), st.integers(1, 4)
)
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(apply, st.sampled_from(["add", "mul", "sub", "min", "max"]), inner, inner),
        st.builds(apply, st.just("floordiv"), inner, leaves),
    ),
    max_leaves=6,
)
assignments = st.fixed_dictionaries({name: st.integers(1, 20) for name in NAMES})


@settings(max_examples=100, deadline=None, database=None, derandomize=True)
@given(expressions, expressions, assignments)
def test_simplification_never_changes_a_value(a: Any, b: Any, values: dict[str, int]) -> None:
    def at(size: Any) -> Any:
        return evaluate(expr_of(size), lambda path: values[path], values)

    parts = [part for size in (a, b) for part in walk(expr_of(size))]
    assume(all(evaluate(part, lambda path: values[path], values) >= 0 for part in parts))  # none is negative
    assert at(sizes.add(a, b)) == at(a) + at(b)
    assert at(sizes.subtract(a, b)) == at(a) - at(b)
    assert at(sizes.product((a, b))) == at(a) * at(b)
    if at(b) > 0 and unwrap(b) > 0:
        assert at(sizes.quotient(a, b)) == at(a) // at(b)
        assert at(sizes.quotient_up(a, b)) == -(-at(a) // at(b))
        assert at(sizes.quotient(sizes.product((a, b)), b)) == at(a)
    assert not equal(expr_of(a), expr_of(b)) or at(a) == at(b)
    assert not at_least(expr_of(a), expr_of(b)) or at(a) >= at(b)
