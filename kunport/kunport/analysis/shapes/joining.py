"""Operators that cut tensors, join them, and repeat them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from kunport_codegen.expression import symbol as size_symbol

from . import dtypes, sizes
from .elementwise import broadcast
from .reductions import unknown_size
from .registry import rule
from .tensor import Result, ShapeError, Size, TensorType

_MOST = 10_000  # pieces that a tensor is cut into; no model needs a thousandth of it


def _cut(x: TensorType, dim: int, pieces: list[Size]) -> Result:
    return tuple(TensorType(sizes.replaced(x.shape, dim, piece), x.dtype) for piece in pieces)


def _pieces(size: Size, each: Size) -> list[Size]:
    """Pieces of ``each``, the last one with what is left."""
    if sizes.value(each) <= 0:
        raise ShapeError("a piece needs at least one element")
    full, rest = divmod(sizes.value(size), sizes.value(each))
    if full == 0 or (full == 1 and not rest):
        return [size]
    count = _held(full + bool(rest))
    last = sizes.subtract(size, sizes.product((count - 1, each)))
    return [each] * (count - 1) + [last]


def _held(count: int) -> int:
    """How many pieces, where so many can be held."""
    if count > _MOST:
        raise ShapeError(f"more than {_MOST:,} pieces")
    return count


@rule("split", data_dependent=True)
def split(
    x: TensorType, split_size: Any = None, dim: Any = 0, split_size_or_sections: Any = None, *, symbol: str
) -> Result:
    wanted = split_size_or_sections if split_size is None else split_size
    where = sizes.axis(dim, x.rank)
    if not isinstance(wanted, tuple | list):
        return _cut(x, where, _pieces(x.shape[where], sizes.as_size(wanted)))
    return split_with_sizes(x, wanted, dim, symbol=symbol)


@rule("split_with_sizes", data_dependent=True)
def split_with_sizes(x: TensorType, split_sizes: Any, dim: Any = 0, *, symbol: str) -> Result:
    """Pieces of the given sizes. Where only the data tell the sizes, the last piece is what the others leave."""
    where = sizes.axis(dim, x.rank)
    if any(isinstance(size, TensorType) for size in split_sizes):
        first = [size_symbol(f"{symbol}_{place}", 1) for place in range(len(split_sizes) - 1)]
        return _cut(x, where, [*first, sizes.subtract(x.shape[where], sizes.total(first))])
    pieces = [sizes.as_size(size) for size in split_sizes]
    if sum(map(sizes.value, pieces)) != sizes.value(x.shape[where]):
        raise ShapeError(f"pieces of {pieces} do not make up {x.shape[where]}")
    return _cut(x, where, pieces)


@rule("chunk")
def chunk(x: TensorType, chunks: Any, dim: Any = 0) -> Result:
    where = sizes.axis(dim, x.rank)
    return _cut(x, where, _pieces(x.shape[where], sizes.quotient_up(x.shape[where], sizes.as_size(chunks))))


@rule("tensor_split")
def tensor_split(x: TensorType, parts: Any = None, dim: Any = 0, **named: Any) -> Result:
    """As many parts as asked for, the first ones longer by one, or cut at the given places."""
    where = sizes.axis(dim, x.rank)
    size = x.shape[where]
    wanted = next((held for held in (parts, named.get("sections"), named.get("indices")) if held is not None), None)
    if isinstance(wanted, TensorType) or wanted is None:
        raise ShapeError("places to cut at that are data are not supported")
    if isinstance(wanted, tuple | list):
        bounds = [None, *wanted, None]
        spans = pairwise(bounds)
        return _cut(x, where, [sizes.sliced(size, slice(start, stop)) for start, stop in spans])
    count = sizes.as_size(wanted)
    last = _held(sizes.value(count)) - 1
    return _cut(x, where, [sizes.share(size, count, last - place) for place in range(last + 1)])


@rule("unbind")
def unbind(x: TensorType, dim: Any = 0) -> Result:
    where = sizes.axis(dim, x.rank)
    piece = TensorType(sizes.replaced(x.shape, where), x.dtype)
    return (piece,) * _held(sizes.value(x.shape[where]))


@rule("cat")
def cat(tensors: Any, dim: Any = 0) -> TensorType:
    """Tensors one after the other; those of a loop are the rows of one tensor."""
    if isinstance(tensors, TensorType):
        where = sizes.axis(dim, tensors.rank - 1)
        joined = sizes.product((tensors.shape[0], tensors.shape[1 + where]))
        return TensorType(sizes.replaced(tensors.shape[1:], where, joined), tensors.dtype)
    held = [tensor for tensor in tensors if list(tensor.shape) != [0]] or list(tensors)  # as torch does
    where = sizes.axis(dim, held[0].rank)
    rests = [sizes.replaced(tensor.shape, where) for tensor in held]
    if any(list(map(sizes.value, rest)) != list(map(sizes.value, rests[0])) for rest in rests):
        raise ShapeError(f"tensors of shapes {[tensor.shape for tensor in held]} do not join")
    shape = list(broadcast(*rests))
    shape.insert(where, sizes.total(tensor.shape[where] for tensor in held))
    return TensorType(tuple(shape), dtypes.result_type(tensors))


@rule("stack")
def stack(tensors: Any, dim: Any = 0) -> TensorType:
    """Tensors along a new dimension; those of a loop are the rows of one tensor."""
    if isinstance(tensors, TensorType):
        shape = list(tensors.shape[1:])
        shape.insert(sizes.axis(dim, tensors.rank), tensors.shape[0])
        return TensorType(tuple(shape), tensors.dtype)
    held = list(tensors)
    shapes = [list(map(sizes.value, tensor.shape)) for tensor in held]
    if any(shape != shapes[0] for shape in shapes):
        raise ShapeError(f"tensors of shapes {shapes} do not stack")
    shape = list(broadcast(*(tensor.shape for tensor in held)))
    shape.insert(sizes.axis(dim, len(shape) + 1), len(held))
    return TensorType(tuple(shape), dtypes.result_type(held))


@rule("hstack")
def hstack(tensors: Any) -> TensorType:
    return cat(tensors, 0 if tensors[0].rank == 1 else 1)


@rule("vstack")
def vstack(tensors: Any) -> TensorType:
    return cat([TensorType((1, *held.shape), held.dtype) if held.rank == 1 else held for held in tensors], 0)


@rule("repeat tile")
def repeat(x: TensorType, *times: Any, repeats: Any = None, dims: Any = None) -> TensorType:
    named = repeats if repeats is not None else dims
    wanted = [sizes.as_size(count) for count in (sizes.flat(times) if named is None else named)]
    rank = max(len(wanted), x.rank)
    counts: tuple[Size, ...] = (1,) * (rank - len(wanted)) + tuple(wanted)
    shape: tuple[Size, ...] = (1,) * (rank - x.rank) + x.shape
    return TensorType(tuple(map(sizes.product, zip(shape, counts, strict=True))), x.dtype)


@rule("repeat_interleave", data_dependent=True)
def repeat_interleave(
    x: TensorType, repeats: Any = None, dim: Any = None, *, output_size: Any = None, symbol: str
) -> TensorType:
    if repeats is None:
        return TensorType((unknown_size(symbol),), dtypes.INT64)
    shape = (sizes.product(x.shape),) if dim is None else x.shape
    where = 0 if dim is None else sizes.axis(dim, x.rank)
    if output_size is not None:
        size = sizes.as_size(output_size)
    elif isinstance(repeats, TensorType):
        size = unknown_size(symbol)
    else:
        size = sizes.product((shape[where], sizes.as_size(repeats)))
    return TensorType(sizes.replaced(shape, where, size), x.dtype)


@rule("meshgrid")
def meshgrid(*tensors: Any, indexing: str = "ij") -> Result:
    held = list(sizes.flat(tensors))
    shape = [tensor.shape[0] if tensor.shape else 1 for tensor in held]
    if indexing == "xy" and len(shape) > 1:
        shape[0], shape[1] = shape[1], shape[0]
    return tuple(TensorType(tuple(shape), tensor.dtype) for tensor in held)


@rule("broadcast_tensors")
def broadcast_tensors(*tensors: TensorType) -> Result:
    shape = broadcast(*(tensor.shape for tensor in tensors))
    return tuple(TensorType(shape, tensor.dtype) for tensor in tensors)


@rule("pad")
def pad(x: TensorType, pad: Any, mode: str = "constant", value: Any = None) -> TensorType:
    """``pad`` lists what is added before and after, from the last dimension on."""
    shape = list(x.shape)
    for place, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True), start=1):
        shape[-place] = sizes.add(sizes.add(shape[-place], sizes.as_size(before)), sizes.as_size(after))
    return TensorType(tuple(shape), x.dtype)
