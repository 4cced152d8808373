"""Plain torch as source: evaluated, it gives what the operators give."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from kunport_codegen.emission.operators import ATOM, constant, operator
from kunport_codegen.graph import DType, Ref
from torch import nn

BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "floor_divide", "remainder")
UNARY = ("neg", "tanh", "exp", "silu", "softplus", "abs")
VALUES = {name: torch.tensor([1.5, -0.5, 2.0]) * factor for name, factor in (("a", 1.0), ("b", 0.7), ("c", -1.2))}

TREES = st.recursive(
    st.sampled_from(tuple(VALUES)) | st.sampled_from((2, -3, 0.5)),
    lambda inner: st.tuples(st.sampled_from(UNARY), inner) | st.tuples(st.sampled_from(BINARY), inner, inner),
    max_leaves=8,
)


def written(tree: Any) -> tuple[str, int]:
    if isinstance(tree, tuple):
        return operator(tree[0], tree[1:], {}, written)
    if isinstance(tree, str):
        return tree, ATOM
    text = constant(tree, "")
    return text, 8 if text.startswith("-") else ATOM


def computed(tree: Any) -> Any:
    if not isinstance(tree, tuple):
        return VALUES.get(tree, tree) if isinstance(tree, str) else tree
    function = getattr(torch, tree[0], None) or getattr(nn.functional, tree[0])
    return function(*(computed(operand) for operand in tree[1:]))


def has_tensors(tree: Any) -> bool:
    """Torch's functions want a tensor first; the graph never has an operator without one."""
    if not isinstance(tree, tuple):
        return True
    return isinstance(computed_type(tree[1]), torch.Tensor) and all(has_tensors(each) for each in tree[1:])


def computed_type(tree: Any) -> Any:
    return VALUES["a"] if isinstance(tree, tuple | str) else tree


@given(TREES.filter(has_tensors))
def test_brackets_are_where_they_must_be(tree: Any) -> None:
    if any(name in str(tree) for name in ("maximum", "minimum")) and any(
        number in str(tree) for number in ("2", "3", "5")
    ):
        return
    result = eval(written(tree)[0], {"torch": torch, "nn": nn, **VALUES})
    torch.testing.assert_close(torch.as_tensor(result), torch.as_tensor(computed(tree)), equal_nan=True)


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "expected"),
    [
        ("getitem", ("x", (slice(None), slice(None), slice(2, None))), {}, "x[..., 2:]"),
        ("getitem", ("x", (slice(None), None, slice(None, None, 2))), {}, "x[:, None, ::2]"),
        ("getitem", ("x", (slice(None), 0)), {}, "x[..., 0]"),
        ("zeros_like", ("x",), {"dtype": DType("bool")}, "torch.zeros_like(x, dtype=torch.bool)"),
        ("full_like", ("x", 2.0), {}, "torch.full_like(x, 2.0)"),
        ("softmax", ("x",), {"dim": -1, "dtype": DType("float32")}, "x.softmax(dim=-1, dtype=torch.float32)"),
        ("to", (("add", "x", "y"), DType("model")), {}, "(x + y).to(x.dtype)"),
        ("cat", (["x", "y"],), {"dim": -1}, "torch.cat([x, y], dim=-1)"),
        ("gelu", ("x",), {"approximate": "tanh"}, "nn.functional.gelu(x, approximate='tanh')"),
        ("pow", (("neg", "x"), 2), {}, "(-x) ** 2"),
        ("sub", ("x", ("sub", "y", "z")), {}, "x - (y - z)"),
    ],
)
def test_each_way_of_writing(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], expected: str) -> None:
    def write(arg: Any) -> tuple[str, int]:
        if isinstance(arg, tuple):
            return operator(arg[0], arg[1:], {}, write)
        if isinstance(arg, list):
            return f"[{', '.join(write(each)[0] for each in arg)}]", ATOM
        if isinstance(arg, str) and len(arg) == 1:
            return arg, ATOM
        return constant(arg, "x.dtype"), ATOM

    assert operator(name, args, kwargs, write)[0] == expected


def test_a_dtype_is_torchs_or_the_models() -> None:
    assert constant(DType("model"), "x.dtype") == "x.dtype"
    assert constant(DType("int64"), "") == "torch.int64"


def test_references_compare_by_value() -> None:
    assert Ref(1) == Ref(1)
