"""Arithmetic on sizes: plain integers, or scalars whose expressions stay short."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kunport_codegen.expression import Expr, Scalar, apply, expr_of, unwrap

from . import algebra
from .tensor import ShapeError, Size


def value(size: Any) -> int:
    """The number of a size at the sizes that are analysed."""
    number = unwrap(size)
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int):
        raise ShapeError(f"{number!r} is not a size")
    return number


def as_size(size: Any) -> Size:
    """A size as it stands in a shape: an integer where the expression is constant."""
    if isinstance(size, Scalar) and size.expr.op != "const":
        return Scalar(value(size), size.expr)
    return value(size)


def flat(sizes: Sequence[Any]) -> tuple[Any, ...]:
    """Sizes that were given one by one or as one sequence."""
    if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
        return tuple(sizes[0])
    return tuple(sizes)


def axis(dim: Any, rank: int) -> int:
    """A dimension counted from the front. Tensors without dimensions have an axis 0, as in torch."""
    number, bound = value(dim), max(rank, 1)
    if not -bound <= number < bound:
        raise ShapeError(f"dimension {number} is out of range for a tensor of {rank} dimensions")
    return number % bound


def axes(dims: Any, rank: int) -> tuple[int, ...]:
    """Several dimensions; all of them where none is named."""
    if dims is None or (isinstance(dims, tuple | list) and not dims):
        return tuple(range(rank))
    return tuple(axis(dim, rank) for dim in (dims if isinstance(dims, tuple | list) else (dims,)))


def replaced(shape: tuple[Size, ...], dim: int, *sizes: Size) -> tuple[Size, ...]:
    """The shape with one of its sizes replaced by any number of others."""
    return (*shape[:dim], *sizes, *shape[dim + 1 :])


def same(a: Size, b: Size) -> bool:
    return value(a) == value(b)


def simplest(sizes: Iterable[Size]) -> Size:
    """Of equal sizes the one that says most: an expression rather than a number, and the shortest of them."""
    return min(sizes, key=lambda size: algebra.length(size.expr) if isinstance(size, Scalar) else math.inf)


def product(sizes: Iterable[Size]) -> Size:
    held = tuple(sizes)
    return _settle(math.prod(map(value, held)), lambda: algebra.product(map(expr_of, held)), *held)


def quotient(a: Size, b: Size) -> Size:
    """``a // b``."""
    if value(b) == 0:
        raise ShapeError("a size is divided by zero")
    return _settle(value(a) // value(b), lambda: algebra.quotient(expr_of(a), expr_of(b)), a, b)


def quotient_up(a: Size, b: Size) -> Size:
    """``a / b`` rounded up."""
    return share(a, b, subtract(b, 1))


def share(a: Size, b: Size, extra: Size) -> Size:
    """``(a + extra) // b``, where ``extra`` is less than ``b``: ``a // b`` if nothing is left over."""
    return quotient(a if algebra.divides(expr_of(b), expr_of(a)) else add(a, extra), b)


def add(a: Size, b: Size) -> Size:
    return _settle(value(a) + value(b), lambda: algebra.add(expr_of(a), expr_of(b)), a, b)


def subtract(a: Size, b: Size) -> Size:
    return _settle(value(a) - value(b), lambda: algebra.subtract(expr_of(a), expr_of(b)), a, b)


def total(sizes: Iterable[Size]) -> Size:
    held = list(sizes)
    result = held[0] if held else 0
    for size in held[1:]:
        result = add(result, size)
    return result


def minimum(a: Size, b: Size) -> Size:
    if algebra.at_least(expr_of(b), expr_of(a)):
        return a
    if algebra.at_least(expr_of(a), expr_of(b)):
        return b
    return as_size(apply("min", a, b))


def maximum(a: Size, b: Size) -> Size:
    if algebra.at_least(expr_of(a), expr_of(b)):
        return a
    if algebra.at_least(expr_of(b), expr_of(a)):
        return b
    return as_size(apply("max", a, b))


def sliced(size: Size, part: slice) -> Size:
    """The length of a slice of a dimension."""
    step = 1 if part.step is None else as_size(part.step)
    if value(step) < 1:
        raise ShapeError("slices of tensors need a positive step")
    first, last = part.start, part.stop
    if last is None and first is not None and value(first) < 0:
        length = minimum(product((-1, as_size(first))), size)
    else:
        start = 0 if first is None else _inside(as_size(first), size)
        stop = size if last is None else _inside(as_size(last), size)
        length = maximum(subtract(stop, start), 0)
    return length if step == 1 else quotient_up(length, step)


def _inside(index: Size, size: Size) -> Size:
    return maximum(add(size, index), 0) if value(index) < 0 else minimum(index, size)


def _settle(number: int, expression: Callable[[], Expr], *operands: Size) -> Size:
    """A plain number, unless an operand is a scalar and the expression keeps something of it."""
    if not any(isinstance(operand, Scalar) for operand in operands):
        return number
    return as_size(Scalar(number, expression()))
