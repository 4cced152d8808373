"""Operators that make tensors from numbers."""

from __future__ import annotations

import math
from typing import Any

from kunport_codegen.expression import Scalar, apply, unwrap
from kunport_codegen.graph import DType

from . import dtypes, sizes
from .registry import rule
from .tensor import ShapeError, Size, TensorType


def _shape(wanted: tuple[Any, ...], size: Any = None) -> tuple[Size, ...]:
    return tuple(map(sizes.as_size, sizes.flat(wanted if size is None else (size,))))


@rule("zeros ones empty rand randn")
def made(*wanted: Any, size: Any = None, dtype: DType | None = None) -> TensorType:
    return TensorType(_shape(wanted, size), dtype or dtypes.DEFAULT_FLOAT)


@rule("full")
def full(size: Any, fill_value: Any, dtype: DType | None = None) -> TensorType:
    value = fill_value.dtype if isinstance(fill_value, TensorType) else dtypes.of_scalar(fill_value)
    return TensorType(_shape((size,)), dtype or value)


@rule("zeros_like ones_like empty_like full_like rand_like randn_like")
def like(x: TensorType, fill_value: Any = None, dtype: DType | None = None) -> TensorType:
    return TensorType(x.shape, dtype or x.dtype)


@rule("new_zeros new_ones new_empty")
def new(x: TensorType, *wanted: Any, size: Any = None, dtype: DType | None = None) -> TensorType:
    return TensorType(_shape(wanted, size), dtype or x.dtype)


@rule("new_full")
def new_full(x: TensorType, size: Any, fill_value: Any, dtype: DType | None = None) -> TensorType:
    return TensorType(_shape((size,)), dtype or x.dtype)


@rule("arange")
def arange(*bounds: Any, start: Any = 0, end: Any = None, step: Any = 1, dtype: DType | None = None) -> TensorType:
    if len(bounds) == 1:
        end = bounds[0]
    elif bounds:
        start, end, step = (*bounds, step)[:3]
    if dtype is None:
        floating = any(isinstance(unwrap(held), float) for held in (start, end, step))
        dtype = dtypes.DEFAULT_FLOAT if floating else dtypes.INT64
    return TensorType((_count(start, end, step),), dtype)


def _count(start: Any, end: Any, step: Any) -> Size:
    """How many numbers lie from ``start`` to before ``end``."""
    numbers = [unwrap(held) for held in (start, end, step)]
    if any(isinstance(held, TensorType) for held in numbers):
        raise ShapeError("bounds that are tensors are not supported")
    if all(isinstance(held, int) for held in numbers) and numbers[2] > 0:
        return sizes.maximum(sizes.quotient_up(sizes.subtract(end, start), step), 0)
    if not any(isinstance(held, Scalar) for held in (start, end, step)):
        return sizes.value(max(math.ceil((numbers[1] - numbers[0]) / numbers[2]), 0))
    count = apply("ceil", apply("div", apply("sub", end, start), step))
    return sizes.as_size(apply("max", count, 0))


@rule("linspace")
def linspace(start: Any, end: Any, steps: Any, dtype: DType | None = None) -> TensorType:
    return TensorType((sizes.as_size(steps),), dtype or dtypes.DEFAULT_FLOAT)


@rule("eye")
def eye(n: Any, m: Any = None, dtype: DType | None = None) -> TensorType:
    return TensorType((sizes.as_size(n), sizes.as_size(n if m is None else m)), dtype or dtypes.DEFAULT_FLOAT)


@rule("tensor")
def tensor(data: Any, dtype: DType | None = None) -> TensorType:
    """A tensor of nested numbers; integers give int64, any float among them float32."""
    shape: list[int] = []
    level = [data]
    while level and isinstance(level[0], tuple | list):
        lengths = {len(row) for row in level}
        if len(lengths) > 1:
            raise ShapeError("rows differ in length")
        shape.append(lengths.pop())
        level = [item for row in level for item in row]
    inner = [item for item in level if isinstance(item, TensorType)]
    if inner:
        return TensorType((*shape, *inner[0].shape), dtype or inner[0].dtype)
    return TensorType(tuple(shape), dtype or (dtypes.result_type(level) if level else dtypes.DEFAULT_FLOAT))


@rule("diag_embed")
def diag_embed(x: TensorType, offset: Any = 0) -> TensorType:
    size = sizes.add(x.shape[-1], abs(sizes.value(offset)))
    return TensorType((*x.shape[:-1], size, size), x.dtype)
