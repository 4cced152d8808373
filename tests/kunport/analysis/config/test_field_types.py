"""The rules for types are those of the decorator that Transformers uses."""

import ast
from typing import Any, Literal, Optional, Union  # noqa: F401 - annotations below are evaluated with these

import pytest
from huggingface_hub.dataclasses import type_validator
from hypothesis import given
from hypothesis import strategies as st
from kunport.analysis.config.field_types import fits

pytestmark = pytest.mark.untraced

ANNOTATIONS = [
    "int",
    "float",
    "bool",
    "str",
    "list",
    "dict",
    "tuple",
    "int | None",
    "float | int",
    "list[int]",
    "list[str] | None",
]
ANNOTATIONS += [
    "list[int | list[int]]",
    "dict[str, int]",
    "tuple[int, ...]",
    "tuple[int, str]",
    "Optional[int]",
    "Union[int, str]",
]
ANNOTATIONS += [
    'Literal["a", 1, True]',
    "list[int] | tuple[int, ...] | None",
    "Any",
    "dict[str, Any]",
    "dict[int, list[float]]",
]

SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.floats(allow_nan=False) | st.sampled_from(["a", "b"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.lists(inner, max_size=2).map(tuple)
        | st.dictionaries(st.sampled_from(["a", 1]), inner, max_size=2)
    ),
    max_leaves=4,
)


@pytest.mark.parametrize("annotation", ANNOTATIONS)
@given(value=VALUES)
def test_the_same_values_fit(annotation, value):
    try:
        type_validator("field", value, eval(annotation))
        expected = True
    except TypeError:
        expected = False
    assert fits(ast.parse(annotation, mode="eval").body, value) == expected


def test_a_type_without_a_rule_takes_anything():
    assert fits(ast.parse("RopeParameters", mode="eval").body, 3)
    assert fits(ast.parse("torch.dtype", mode="eval").body, 3)
