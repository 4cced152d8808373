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
def total(x: TensorType, dim: Any = None, keepdim: bool = False, dtype: DType | None = None) -> TensorType:
    return TensorType(reduced(x.shape, dim, keepdim), dtype or dtypes.integral_sum(x.dtype))


@rule("mean")
def mean(x: TensorType, dim: Any = None, keepdim: bool = False, dtype: DType | None = None) -> TensorType:
    if not dtypes.is_floating(dtype or x.dtype):
        raise ShapeError("a mean needs a floating dtype")
    return TensorType(reduced(x.shape, dim, keepdim), dtype or x.dtype)


@rule("var std")
def spread(
    x: TensorType, dim: Any = None, unbiased: Any = True, keepdim: bool = False, correction: Any = 1
) -> TensorType:
    over = None if isinstance(dim, bool) else dim  # var(unbiased) names no dimension
    return TensorType(reduced(x.shape, over, keepdim), dtypes.to_real(x.dtype))


@rule("var_mean std_mean")
def spread_and_mean(
    x: TensorType, dim: Any = None, unbiased: Any = True, keepdim: bool = False, correction: Any = 1
) -> Result:
    return spread(x, dim, unbiased, keepdim), mean(x, None if isinstance(dim, bool) else dim, keepdim)


@rule("logsumexp")
def logsumexp(x: TensorType, dim: Any, keepdim: bool = False) -> TensorType:
    return TensorType(reduced(x.shape, dim, keepdim), dtypes.floating(x.dtype))


@rule("norm vector_norm")
def norm(x: TensorType, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: DType | None = None) -> TensorType:
    return TensorType(reduced(x.shape, dim, keepdim), dtypes.to_real(dtype or x.dtype))


@rule("amax amin")
def extreme(x: TensorType, dim: Any = (), keepdim: bool = False) -> TensorType:
    return TensorType(reduced(x.shape, dim, keepdim), x.dtype)


@rule("all any")
def truth(x: TensorType, dim: Any = None, keepdim: bool = False) -> TensorType:
    return TensorType(reduced(x.shape, dim, keepdim), dtypes.BOOL)


@rule("argmax argmin")
def position(x: TensorType, dim: Any = None, keepdim: bool = False) -> TensorType:
    return TensorType(reduced(x.shape, dim, keepdim), dtypes.INT64)


@rule("count_nonzero")
def count(x: TensorType, dim: Any = None) -> TensorType:
    return TensorType(reduced(x.shape, dim, False), dtypes.INT64)


@rule("max min")
def extreme_and_position(x: TensorType, dim: Any = None, keepdim: bool = False, other: Any = None) -> Result:
    """Of all elements; of a dimension, with the places; or of two tensors."""
    partner = dim if isinstance(dim, TensorType) else other
    if partner is not None:
        return promoting(x, partner)
    if dim is None:
        return TensorType((), x.dtype)
    return along(x, dim, keepdim)


@rule("median")
def along(x: TensorType, dim: Any = None, keepdim: bool = False) -> Result:
    if dim is None:
        return TensorType((), x.dtype)
    shape = reduced(x.shape, sizes.axis(dim, x.rank), keepdim)
    return TensorType(shape, x.dtype), TensorType(shape, dtypes.INT64)


@rule("cumsum cumprod")
def running(x: TensorType, dim: Any, dtype: DType | None = None) -> TensorType:
    sizes.axis(dim, x.rank)
    return TensorType(x.shape, dtype or dtypes.integral_sum(x.dtype))


@rule("logcumsumexp")
def running_logsumexp(x: TensorType, dim: Any) -> TensorType:
    return TensorType(x.shape, dtypes.floating(x.dtype))


@rule("cummax cummin")
def running_extreme(x: TensorType, dim: Any) -> Result:
    sizes.axis(dim, x.rank)
    return x, TensorType(x.shape, dtypes.INT64)


@rule("diff")
def difference(x: TensorType, n: Any = 1, dim: Any = -1, prepend: Any = None, append: Any = None) -> TensorType:
    where = sizes.axis(dim, x.rank)
    joined = [part for part in (prepend, x, append) if part is not None]
    length = sizes.total(part.shape[where] for part in joined)
    return TensorType(sizes.replaced(x.shape, where, sizes.subtract(length, n)), dtypes.result_type(joined))


@rule("bincount", data_dependent=True)
def bincount(x: TensorType, weights: TensorType | None = None, minlength: Any = 0, *, symbol: str) -> TensorType:
    """One count for each class; ``minlength`` is taken for their number, as a model that gives it means it."""
    size = sizes.as_size(minlength) if sizes.value(minlength) else unknown_size(symbol)
    return TensorType((size,), dtypes.INT64 if weights is None else weights.dtype)


@rule("histc")
def histogram(x: TensorType, bins: Any = 100, low: Any = 0, high: Any = 0) -> TensorType:
    return TensorType((sizes.as_size(bins),), x.dtype)
