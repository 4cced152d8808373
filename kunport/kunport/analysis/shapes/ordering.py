"""Operators that put elements in order."""

from __future__ import annotations

from typing import Any

from . import dtypes, sizes
from .reductions import unknown_size
from .registry import rule
from .tensor import Result, ShapeError, TensorType


@rule("sort")
def sort(x: TensorType, dim: Any = -1, descending: bool = False, stable: bool = False) -> Result:
    sizes.axis(dim, x.rank)
    return x, TensorType(x.shape, dtypes.INT64)


@rule("argsort")
def argsort(x: TensorType, dim: Any = -1, descending: bool = False, stable: bool = False) -> TensorType:
    sizes.axis(dim, x.rank)
    return TensorType(x.shape, dtypes.INT64)


@rule("topk")
def topk(x: TensorType, k: Any, dim: Any = -1, largest: bool = True, ordered: bool = True) -> Result:
    where = sizes.axis(dim, x.rank)
    if x.shape and sizes.value(k) > sizes.value(x.shape[where]):
        raise ShapeError(f"there are no {k} largest of {x.shape[where]}")
    shape = sizes.replaced(x.shape, where, sizes.as_size(k)) if x.shape else ()
    return TensorType(shape, x.dtype), TensorType(shape, dtypes.INT64)


@rule("kthvalue")
def kthvalue(x: TensorType, k: Any, dim: Any = -1, keepdim: bool = False) -> Result:
    where = sizes.axis(dim, x.rank)
    shape = sizes.replaced(x.shape, where, *((1,) if keepdim else ()))
    return TensorType(shape, x.dtype), TensorType(shape, dtypes.INT64)


@rule("bucketize")
def bucketize(x: TensorType, boundaries: TensorType, **options: Any) -> TensorType:
    return TensorType(x.shape, dtypes.INT64)


@rule("searchsorted")
def searchsorted(sorted_sequence: TensorType, x: TensorType, **options: Any) -> TensorType:
    return TensorType(x.shape, dtypes.INT64)


@rule("unique unique_consecutive", data_dependent=True)
def unique(
    x: TensorType,
    ordered: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: Any = None,
    *,
    symbol: str,
) -> Result:
    if dim is not None:
        raise ShapeError("the distinct slices along a dimension are not supported")
    values = TensorType((unknown_size(symbol),), x.dtype)
    results = [values]
    if return_inverse:
        results.append(TensorType(x.shape, dtypes.INT64))
    if return_counts:
        results.append(TensorType(values.shape, dtypes.INT64))
    return tuple(results) if len(results) > 1 else values
