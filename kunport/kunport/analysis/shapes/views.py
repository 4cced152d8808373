"""Operators that lay the same elements out in another shape."""

from __future__ import annotations

import math
from typing import Any

from kunport_codegen.graph import DType

from . import dtypes, sizes
from .registry import rule
from .tensor import ShapeError, Size, TensorType


def filled(shape: tuple[Size, ...], wanted: tuple[Any, ...]) -> tuple[Size, ...]:
    """The wanted shape with its -1, if there is one, worked out."""
    numbers = [sizes.value(size) for size in wanted]
    if numbers.count(-1) > 1:
        raise ShapeError("only one size can be -1")
    have = math.prod(map(sizes.value, shape))
    if -1 not in numbers:
        if math.prod(numbers) != have:
            raise ShapeError(f"{have} elements do not fill the shape {wanted}")
        return tuple(map(sizes.as_size, wanted))
    hole = numbers.index(-1)
    known = sizes.product(sizes.as_size(size) for index, size in enumerate(wanted) if index != hole)
    if not sizes.value(known) or have % sizes.value(known):
        raise ShapeError(f"{have} elements do not fill the shape {wanted}")
    missing = sizes.quotient(sizes.product(shape), known)
    return tuple(missing if index == hole else sizes.as_size(size) for index, size in enumerate(wanted))


@rule("reshape")
def reshape(x: TensorType, *wanted: Any, shape: Any = None) -> TensorType:
    return TensorType(filled(x.shape, sizes.flat(wanted if shape is None else (shape,))), x.dtype)


@rule("view")
def view(x: TensorType, *wanted: Any, size: Any = None, dtype: DType | None = None) -> TensorType:
    if dtype is not None or isinstance(wanted[0] if wanted else None, DType):
        raise ShapeError("a view under another dtype is not supported")
    return TensorType(filled(x.shape, sizes.flat(wanted if size is None else (size,))), x.dtype)


@rule("view_as reshape_as")
def view_as(x: TensorType, other: TensorType) -> TensorType:
    return TensorType(filled(x.shape, other.shape), x.dtype)


@rule("flatten ravel")
def flatten(x: TensorType, start_dim: Any = 0, end_dim: Any = -1) -> TensorType:
    first, last = sizes.axis(start_dim, x.rank), sizes.axis(end_dim, x.rank)
    if first > last:
        raise ShapeError("the first dimension to flatten comes after the last")
    merged = sizes.product(x.shape[first : last + 1])
    return TensorType((*x.shape[:first], merged, *x.shape[last + 1 :]), x.dtype)


@rule("unflatten")
def unflatten(x: TensorType, dim: Any, parts: Any) -> TensorType:
    where = sizes.axis(dim, x.rank)
    shape = filled((x.shape[where],), tuple(parts))
    return TensorType(sizes.replaced(x.shape, where, *shape), x.dtype)


@rule("unsqueeze")
def unsqueeze(x: TensorType, dim: Any) -> TensorType:
    where = sizes.axis(dim, x.rank + 1)
    return TensorType((*x.shape[:where], 1, *x.shape[where:]), x.dtype)


@rule("squeeze")
def squeeze(x: TensorType, *dims: Any, dim: Any = None) -> TensorType:
    chosen = sizes.axes(sizes.flat(dims) or dim, x.rank)
    kept = (size for index, size in enumerate(x.shape) if index not in chosen or sizes.value(size) != 1)
    return TensorType(tuple(kept), x.dtype)


@rule("permute")
def permute(x: TensorType, *order: Any, dims: Any = None) -> TensorType:
    places = [sizes.axis(dim, x.rank) for dim in (sizes.flat(order) if dims is None else dims)]
    if sorted(places) != list(range(x.rank)):
        raise ShapeError(f"{places} does not order {x.rank} dimensions")
    return TensorType(tuple(x.shape[place] for place in places), x.dtype)


@rule("transpose")
def transpose(x: TensorType, dim0: Any, dim1: Any) -> TensorType:
    first, second = sizes.axis(dim0, x.rank), sizes.axis(dim1, x.rank)
    shape = list(x.shape)
    if shape:
        shape[first], shape[second] = shape[second], shape[first]
    return TensorType(tuple(shape), x.dtype)


@rule("t T")
def reverse(x: TensorType) -> TensorType:
    return TensorType(x.shape[::-1], x.dtype)


@rule("mT")
def matrix_transpose(x: TensorType) -> TensorType:
    return transpose(x, -2, -1)


@rule("movedim")
def movedim(x: TensorType, source: Any, destination: Any) -> TensorType:
    sources, targets = sizes.axes(source, x.rank), sizes.axes(destination, x.rank)
    moved = dict(zip(targets, sources, strict=True))
    rest = iter(index for index in range(x.rank) if index not in sources)
    order = [moved[place] if place in moved else next(rest) for place in range(x.rank)]
    return permute(x, order)


@rule("expand broadcast_to")
def expand(x: TensorType, *wanted: Any, size: Any = None) -> TensorType:
    target = sizes.flat(wanted if size is None else (size,))
    lead = len(target) - x.rank
    if lead < 0:
        raise ShapeError(f"{x.rank} dimensions do not expand to {len(target)}")
    result = []
    for place, to in enumerate(target):
        own = x.shape[place - lead] if place >= lead else None
        if own is not None and (sizes.value(to) == -1 or (sizes.same(own, to) and sizes.value(own) != 1)):
            result.append(own if sizes.value(to) == -1 else sizes.simplest((own, sizes.as_size(to))))
        elif sizes.value(to) != -1 and (own is None or sizes.value(own) == 1):
            result.append(sizes.as_size(to))
        else:
            raise ShapeError(f"size {own} does not expand to {to}")
    return TensorType(tuple(result), x.dtype)


@rule("expand_as")
def expand_as(x: TensorType, other: TensorType) -> TensorType:
    return expand(x, *other.shape)


@rule("narrow")
def narrow(x: TensorType, dim: Any, start: Any, length: Any) -> TensorType:
    where = sizes.axis(dim, x.rank)
    return TensorType(sizes.replaced(x.shape, where, sizes.as_size(length)), x.dtype)


@rule("select")
def select(x: TensorType, dim: Any, index: Any) -> TensorType:
    return TensorType(sizes.replaced(x.shape, sizes.axis(dim, x.rank)), x.dtype)


@rule("unfold")
def unfold(x: TensorType, dimension: Any, size: Any, step: Any) -> TensorType:
    """Windows of ``size`` elements, ``step`` apart, as a new last dimension."""
    where = sizes.axis(dimension, x.rank)
    count = sizes.add(sizes.quotient(sizes.subtract(x.shape[where], size), step), 1)
    return TensorType((*sizes.replaced(x.shape, where, count), sizes.as_size(size)), x.dtype)


@rule("diagonal")
def diagonal(x: TensorType, offset: Any = 0, dim1: Any = 0, dim2: Any = 1) -> TensorType:
    first, second = sizes.axis(dim1, x.rank), sizes.axis(dim2, x.rank)
    rest = tuple(size for index, size in enumerate(x.shape) if index not in (first, second))
    rows, columns, shift = x.shape[first], x.shape[second], sizes.value(offset)
    if shift >= 0:
        columns = sizes.subtract(columns, shift) if shift else columns
    else:
        rows = sizes.add(rows, shift)
    return TensorType((*rest, sizes.maximum(sizes.minimum(rows, columns), 0)), x.dtype)


@rule("view_as_complex")
def view_as_complex(x: TensorType) -> TensorType:
    if not x.shape or sizes.value(x.shape[-1]) != 2:
        raise ShapeError("complex numbers are read from a last dimension of 2")
    return TensorType(x.shape[:-1], dtypes.to_complex(x.dtype))


@rule("view_as_real")
def view_as_real(x: TensorType) -> TensorType:
    return TensorType((*x.shape, 2), dtypes.to_real(x.dtype))


@rule("flip roll")
def rearranged(x: TensorType, *settings: Any, **named: Any) -> TensorType:
    return x
