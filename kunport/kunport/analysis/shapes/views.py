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
def reshape(input: TensorType, *wanted: Any, shape: Any = None) -> TensorType:
    return TensorType(filled(input.shape, sizes.flat(wanted if shape is None else (shape,))), input.dtype)


@rule("view")
def view(input: TensorType, *wanted: Any, size: Any = None, dtype: DType | None = None) -> TensorType:
    if dtype is not None or isinstance(wanted[0] if wanted else None, DType):
        raise ShapeError("a view under another dtype is not supported")
    return TensorType(filled(input.shape, sizes.flat(wanted if size is None else (size,))), input.dtype)


@rule("view_as reshape_as")
def view_as(input: TensorType, other: TensorType) -> TensorType:
    return TensorType(filled(input.shape, other.shape), input.dtype)


@rule("flatten ravel")
def flatten(input: TensorType, start_dim: Any = 0, end_dim: Any = -1) -> TensorType:
    first, last = sizes.axis(start_dim, input.rank), sizes.axis(end_dim, input.rank)
    if first > last:
        raise ShapeError("the first dimension to flatten comes after the last")
    merged = sizes.product(input.shape[first : last + 1])
    return TensorType((*input.shape[:first], merged, *input.shape[last + 1 :]), input.dtype)


@rule("unflatten")
def unflatten(input: TensorType, dim: Any, sizes_: Any = None, **named: Any) -> TensorType:
    where = sizes.axis(dim, input.rank)
    parts = filled((input.shape[where],), tuple(named.get("sizes", sizes_)))
    return TensorType(sizes.replaced(input.shape, where, *parts), input.dtype)


@rule("unsqueeze")
def unsqueeze(input: TensorType, dim: Any) -> TensorType:
    where = sizes.axis(dim, input.rank + 1)
    return TensorType((*input.shape[:where], 1, *input.shape[where:]), input.dtype)


@rule("squeeze")
def squeeze(input: TensorType, *dims: Any, dim: Any = None) -> TensorType:
    chosen = sizes.axes(sizes.flat(dims) or dim, input.rank)
    kept = (size for index, size in enumerate(input.shape) if index not in chosen or sizes.value(size) != 1)
    return TensorType(tuple(kept), input.dtype)


@rule("permute")
def permute(input: TensorType, *order: Any, dims: Any = None) -> TensorType:
    places = [sizes.axis(dim, input.rank) for dim in (sizes.flat(order) if dims is None else dims)]
    if sorted(places) != list(range(input.rank)):
        raise ShapeError(f"{places} does not order {input.rank} dimensions")
    return TensorType(tuple(input.shape[place] for place in places), input.dtype)


@rule("transpose")
def transpose(input: TensorType, dim0: Any, dim1: Any) -> TensorType:
    first, second = sizes.axis(dim0, input.rank), sizes.axis(dim1, input.rank)
    shape = list(input.shape)
    if shape:
        shape[first], shape[second] = shape[second], shape[first]
    return TensorType(tuple(shape), input.dtype)


@rule("t T numpy_T")
def reverse(input: TensorType) -> TensorType:
    return TensorType(input.shape[::-1], input.dtype)


@rule("mT")
def matrix_transpose(input: TensorType) -> TensorType:
    return transpose(input, -2, -1)


@rule("movedim")
def movedim(input: TensorType, source: Any, destination: Any) -> TensorType:
    sources, targets = sizes.axes(source, input.rank), sizes.axes(destination, input.rank)
    moved = dict(zip(targets, sources, strict=True))
    rest = iter(index for index in range(input.rank) if index not in sources)
    order = [moved[place] if place in moved else next(rest) for place in range(input.rank)]
    return permute(input, order)


@rule("expand broadcast_to")
def expand(input: TensorType, *wanted: Any, size: Any = None) -> TensorType:
    target = sizes.flat(wanted if size is None else (size,))
    lead = len(target) - input.rank
    if lead < 0:
        raise ShapeError(f"{input.rank} dimensions do not expand to {len(target)}")
    result = []
    for place, to in enumerate(target):
        own = input.shape[place - lead] if place >= lead else None
        if own is not None and (sizes.value(to) == -1 or (sizes.same(own, to) and sizes.value(own) != 1)):
            result.append(own if sizes.value(to) == -1 else sizes.simplest((own, sizes.as_size(to))))
        elif sizes.value(to) != -1 and (own is None or sizes.value(own) == 1):
            result.append(sizes.as_size(to))
        else:
            raise ShapeError(f"size {own} does not expand to {to}")
    return TensorType(tuple(result), input.dtype)


@rule("expand_as")
def expand_as(input: TensorType, other: TensorType) -> TensorType:
    return expand(input, *other.shape)


@rule("narrow")
def narrow(input: TensorType, dim: Any, start: Any, length: Any) -> TensorType:
    where = sizes.axis(dim, input.rank)
    return TensorType(sizes.replaced(input.shape, where, sizes.as_size(length)), input.dtype)


@rule("select")
def select(input: TensorType, dim: Any, index: Any) -> TensorType:
    return TensorType(sizes.replaced(input.shape, sizes.axis(dim, input.rank)), input.dtype)


@rule("unfold")
def unfold(input: TensorType, dimension: Any, size: Any, step: Any) -> TensorType:
    """Windows of ``size`` elements, ``step`` apart, as a new last dimension."""
    where = sizes.axis(dimension, input.rank)
    count = sizes.add(sizes.quotient(sizes.subtract(input.shape[where], size), step), 1)
    return TensorType((*sizes.replaced(input.shape, where, count), sizes.as_size(size)), input.dtype)


@rule("diagonal")
def diagonal(input: TensorType, offset: Any = 0, dim1: Any = 0, dim2: Any = 1) -> TensorType:
    first, second = sizes.axis(dim1, input.rank), sizes.axis(dim2, input.rank)
    rest = tuple(size for index, size in enumerate(input.shape) if index not in (first, second))
    rows, columns, shift = input.shape[first], input.shape[second], sizes.value(offset)
    if shift >= 0:
        columns = sizes.subtract(columns, shift) if shift else columns
    else:
        rows = sizes.add(rows, shift)
    return TensorType((*rest, sizes.maximum(sizes.minimum(rows, columns), 0)), input.dtype)


@rule("view_as_complex")
def view_as_complex(input: TensorType) -> TensorType:
    if not input.shape or sizes.value(input.shape[-1]) != 2:
        raise ShapeError("complex numbers are read from a last dimension of 2")
    return TensorType(input.shape[:-1], dtypes.to_complex(input.dtype))


@rule("view_as_real")
def view_as_real(input: TensorType) -> TensorType:
    return TensorType((*input.shape, 2), dtypes.to_real(input.dtype))


@rule("flip fliplr flipud roll rot90")
def rearranged(input: TensorType, *settings: Any, **named: Any) -> TensorType:
    return input
