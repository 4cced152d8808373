"""Operators that fold dimensions into one number, and those that run along a dimension."""

from __future__ import annotations

from typing import Any

from kunport_codegen.expression import symbol as size_symbol
from kunport_codegen.graph import DType

from . import dtypes, sizes
from .elementwise import promoting
from .registry import rule
from .tensor import Result, ShapeError, Size, TensorType

# What a size that only data tell counts as while shapes are worked out: unlikely to equal another size.
DATA_SIZE = 13


def unknown_size(symbol: str) -> Size:
    return size_symbol(symbol, DATA_SIZE)


def reduced(shape: tuple[Size, ...], dim: Any, keepdim: bool) -> tuple[Size, ...]:
    gone = sizes.axes(dim, len(shape))
    if keepdim:
        return tuple(1 if index in gone else size for index, size in enumerate(shape))
    return tuple(size for index, size in enumerate(shape) if index not in gone)


@rule("sum prod nansum")
def total(input: TensorType, dim: Any = None, keepdim: bool = False, dtype: DType | None = None) -> TensorType:
    return TensorType(reduced(input.shape, dim, keepdim), dtype or dtypes.integral_sum(input.dtype))


@rule("mean")
def mean(input: TensorType, dim: Any = None, keepdim: bool = False, dtype: DType | None = None) -> TensorType:
    if not dtypes.is_floating(dtype or input.dtype):
        raise ShapeError("a mean needs a floating dtype")
    return TensorType(reduced(input.shape, dim, keepdim), dtype or input.dtype)


@rule("var std")
def spread(
    input: TensorType, dim: Any = None, unbiased: Any = True, keepdim: bool = False, correction: Any = 1
) -> TensorType:
    over = None if isinstance(dim, bool) else dim  # var(unbiased) names no dimension
    return TensorType(reduced(input.shape, over, keepdim), dtypes.to_real(input.dtype))


@rule("var_mean std_mean")
def spread_and_mean(
    input: TensorType, dim: Any = None, unbiased: Any = True, keepdim: bool = False, correction: Any = 1
) -> Result:
    return spread(input, dim, unbiased, keepdim), mean(input, None if isinstance(dim, bool) else dim, keepdim)


@rule("logsumexp")
def logsumexp(input: TensorType, dim: Any, keepdim: bool = False) -> TensorType:
    return TensorType(reduced(input.shape, dim, keepdim), dtypes.floating(input.dtype))


@rule("norm vector_norm")
def norm(
    input: TensorType, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: DType | None = None, ord: Any = None
) -> TensorType:
    return TensorType(reduced(input.shape, dim, keepdim), dtypes.to_real(dtype or input.dtype))


@rule("amax amin")
def extreme(input: TensorType, dim: Any = (), keepdim: bool = False) -> TensorType:
    return TensorType(reduced(input.shape, dim, keepdim), input.dtype)


@rule("all any")
def truth(input: TensorType, dim: Any = None, keepdim: bool = False) -> TensorType:
    return TensorType(reduced(input.shape, dim, keepdim), dtypes.BOOL)


@rule("argmax argmin")
def position(input: TensorType, dim: Any = None, keepdim: bool = False) -> TensorType:
    return TensorType(reduced(input.shape, dim, keepdim), dtypes.INT64)


@rule("count_nonzero")
def count(input: TensorType, dim: Any = None) -> TensorType:
    return TensorType(reduced(input.shape, dim, False), dtypes.INT64)


@rule("max min")
def extreme_and_position(input: TensorType, dim: Any = None, keepdim: bool = False, other: Any = None) -> Result:
    """Of all elements; of a dimension, with the places; or of two tensors."""
    partner = dim if isinstance(dim, TensorType) else other
    if partner is not None:
        return promoting(input, partner)
    if dim is None:
        return TensorType((), input.dtype)
    return along(input, dim, keepdim)


@rule("median mode")
def along(input: TensorType, dim: Any = None, keepdim: bool = False) -> Result:
    if dim is None:
        return TensorType((), input.dtype)
    shape = reduced(input.shape, sizes.axis(dim, input.rank), keepdim)
    return TensorType(shape, input.dtype), TensorType(shape, dtypes.INT64)


@rule("cumsum cumprod")
def running(input: TensorType, dim: Any, dtype: DType | None = None) -> TensorType:
    sizes.axis(dim, input.rank)
    return TensorType(input.shape, dtype or dtypes.integral_sum(input.dtype))


@rule("logcumsumexp")
def running_logsumexp(input: TensorType, dim: Any) -> TensorType:
    return TensorType(input.shape, dtypes.floating(input.dtype))


@rule("cummax cummin")
def running_extreme(input: TensorType, dim: Any) -> Result:
    sizes.axis(dim, input.rank)
    return input, TensorType(input.shape, dtypes.INT64)


@rule("diff")
def difference(input: TensorType, n: Any = 1, dim: Any = -1) -> TensorType:
    where = sizes.axis(dim, input.rank)
    return TensorType(sizes.replaced(input.shape, where, sizes.subtract(input.shape[where], n)), input.dtype)


@rule("bincount", data_dependent=True)
def bincount(input: TensorType, weights: TensorType | None = None, minlength: Any = 0, *, symbol: str) -> TensorType:
    """One count for each class; ``minlength`` is taken for their number, as a model that gives it means it."""
    size = sizes.as_size(minlength) if sizes.value(minlength) else unknown_size(symbol)
    return TensorType((size,), dtypes.INT64 if weights is None else weights.dtype)


@rule("histc")
def histogram(input: TensorType, bins: Any = 100, min: Any = 0, max: Any = 0) -> TensorType:
    return TensorType((sizes.as_size(bins),), input.dtype)
