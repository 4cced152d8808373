"""Which dtype an operator's result has.

The rules are torch's type promotion. ``model`` stands for the dtype that the checkpoint is loaded in: float16,
bfloat16 or float32. It therefore promotes to float32 when it meets float32, and stays itself when it meets an integer
or a Python scalar. Where it meets a half-precision type by name it stays itself too, which holds unless the model is
loaded in the other half-precision type.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kunport_codegen.expression import Scalar
from kunport_codegen.graph import DType

from .tensor import ShapeError, TensorType

BOOL, INT64, FLOAT32 = DType("bool"), DType("int64"), DType("float32")
MODEL = DType("model")
DEFAULT_FLOAT = FLOAT32

_CATEGORY = {"bool": 0, "uint8": 1, "int8": 1, "int16": 1, "int32": 1, "int64": 1}
_CATEGORY |= dict.fromkeys(("float16", "bfloat16", "model", "float32", "float64"), 2)
_CATEGORY |= dict.fromkeys(("complex64", "complex128"), 3)
# Inside a category the wider type wins; types of one width that differ go to the next.
_WIDTH = {"uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8}
_WIDTH |= {"float16": 2, "bfloat16": 2, "model": 3, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16}
_NEXT = {1: DType("int16"), 2: FLOAT32}
_COMPLEX = {"float32": DType("complex64"), "float64": DType("complex128")}
_REAL = {"complex64": FLOAT32, "complex128": DType("float64")}


def category(dtype: DType) -> int:
    """0 boolean, 1 integer, 2 floating, 3 complex."""
    if dtype.name not in _CATEGORY:
        raise ShapeError(f"dtype {dtype.name} takes no part in arithmetic")
    return _CATEGORY[dtype.name]


def is_floating(dtype: DType) -> bool:
    return _CATEGORY.get(dtype.name, 2) >= 2


def floating(dtype: DType) -> DType:
    """The dtype that a function with real results gives: its own, or the default for integers."""
    return dtype if is_floating(dtype) else DEFAULT_FLOAT


def integral_sum(dtype: DType) -> DType:
    """The dtype that sums and products accumulate in: int64 for integers and booleans."""
    return dtype if is_floating(dtype) else INT64


def to_complex(dtype: DType) -> DType:
    if dtype.name not in _COMPLEX:
        raise ShapeError(f"no complex type belongs to {dtype.name}")
    return _COMPLEX[dtype.name]


def to_real(dtype: DType) -> DType:
    return _REAL.get(dtype.name, dtype)


def promote(a: DType, b: DType) -> DType:
    """The common type of two tensors with dimensions."""
    if a == b:
        return a
    if category(a) < category(b):
        a, b = b, a
    if category(a) > category(b):
        return DType("complex128") if (a.name, b.name) == ("complex64", "float64") else a
    if _WIDTH[a.name] == _WIDTH[b.name]:
        return _NEXT[_WIDTH[a.name]]
    return a if _WIDTH[a.name] > _WIDTH[b.name] else b


def of_scalar(value: Any) -> DType:
    """The dtype that torch gives a Python number."""
    value = value.value if isinstance(value, Scalar) else value
    for kind, dtype in ((bool, BOOL), (int, INT64), (float, DEFAULT_FLOAT), (complex, DType("complex64"))):
        if isinstance(value, kind):
            return dtype
    raise ShapeError(f"{value!r} is not a number")


def result_type(operands: Iterable[Any]) -> DType:
    """The common type of tensors, tensors without dimensions and Python numbers, the later ones weaker."""
    levels: list[DType | None] = [None, None, None]
    for operand in operands:
        if isinstance(operand, TensorType):
            level, dtype = (0 if operand.shape else 1), operand.dtype
        else:
            level, dtype = 2, of_scalar(operand)
        held = levels[level]
        levels[level] = dtype if held is None else promote(held, dtype)
    result = _combine(levels[0], _combine(levels[1], levels[2]))
    if result is None:
        raise ShapeError("no operand has a dtype")
    return result


def _combine(stronger: DType | None, weaker: DType | None) -> DType | None:
    """A weaker operand only counts where its category is above the stronger's."""
    if stronger is None or weaker is None:
        return stronger or weaker
    if category(weaker) <= category(stronger):
        return stronger
    if category(stronger) == 2:
        return to_complex(stronger)
    return promote(stronger, weaker)
