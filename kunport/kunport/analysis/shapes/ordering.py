"""Operators that put elements in order."""

from __future__ import annotations

from typing import Any

from . import dtypes, sizes
from .reductions import unknown_size
from .registry import rule
from .tensor import Result, ShapeError, TensorType


@rule("sort")
def sort(input: TensorType, dim: Any = -1, descending: bool = False, stable: bool = False) -> Result:
    sizes.axis(dim, input.rank)
    return input, TensorType(input.shape, dtypes.INT64)


@rule("argsort")
def argsort(input: TensorType, dim: Any = -1, descending: bool = False, stable: bool = False) -> TensorType:
    sizes.axis(dim, input.rank)
    return TensorType(input.shape, dtypes.INT64)


@rule("topk")
def topk(input: TensorType, k: Any, dim: Any = -1, largest: bool = True, sorted: bool = True) -> Result:
    where = sizes.axis(dim, input.rank)
    if input.shape and sizes.value(k) > sizes.value(input.shape[where]):
        raise ShapeError(f"there are no {k} largest of {input.shape[where]}")
    shape = sizes.replaced(input.shape, where, sizes.as_size(k)) if input.shape else ()
    return TensorType(shape, input.dtype), TensorType(shape, dtypes.INT64)


@rule("kthvalue")
def kthvalue(input: TensorType, k: Any, dim: Any = -1, keepdim: bool = False) -> Result:
    where = sizes.axis(dim, input.rank)
    shape = sizes.replaced(input.shape, where, *((1,) if keepdim else ()))
    return TensorType(shape, input.dtype), TensorType(shape, dtypes.INT64)


@rule("bucketize")
def bucketize(input: TensorType, boundaries: TensorType, **options: Any) -> TensorType:
    return TensorType(input.shape, dtypes.INT64)


@rule("searchsorted")
def searchsorted(sorted_sequence: TensorType, input: TensorType, **options: Any) -> TensorType:
    return TensorType(input.shape, dtypes.INT64)


@rule("unique unique_consecutive", data_dependent=True)
def unique(
    input: TensorType,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: Any = None,
    *,
    symbol: str,
) -> Result:
    if dim is not None:
        raise ShapeError("the distinct slices along a dimension are not supported")
    values = TensorType((unknown_size(symbol),), input.dtype)
    results = [values]
    if return_inverse:
        results.append(TensorType(input.shape, dtypes.INT64))
    if return_counts:
        results.append(TensorType(values.shape, dtypes.INT64))
    return tuple(results) if len(results) > 1 else values
