"""Operators that pick elements by their place, or write to picked places."""

from __future__ import annotations

from typing import Any

from kunport_codegen.expression import Scalar, unwrap

from . import dtypes, sizes
from .elementwise import broadcast, tensors
from .reductions import unknown_size
from .registry import rule
from .tensor import Result, ShapeError, Size, TensorType


@rule("getitem", data_dependent=True)
def getitem(x: TensorType, index: Any, *, symbol: str) -> TensorType:
    """``x[index]``.

    Integers, slices, None and the ellipsis act first. What tensors index is then replaced by their common shape:
    in place where those dimensions are neighbours, else in front. A boolean tensor stands for as many dimensions as it
    has and picks a number of elements that depends on data.
    """
    items = [_item(item) for item in (index if isinstance(index, tuple) else (index,))]
    shape: list[Size] = []
    picked: list[tuple[int, tuple[Size, ...]]] = []  # (place in the result so far, shape of the index)
    source = list(x.shape)
    for item in _without_ellipsis(items, x.rank):
        if item is None:
            shape.append(1)
        elif isinstance(item, TensorType):
            used = item.rank if item.dtype == dtypes.BOOL else 1
            if used > len(source):
                raise ShapeError(f"too many indices for a tensor of {x.rank} dimensions")
            picked.append((len(shape), (unknown_size(symbol),) if item.dtype == dtypes.BOOL else item.shape))
            shape.append(-1)  # stands for the indexed dimension until all indices are known
            del source[:used]
        elif not source:
            raise ShapeError(f"too many indices for a tensor of {x.rank} dimensions")
        elif isinstance(item, slice):
            shape.append(sizes.sliced(source.pop(0), item))
        else:
            _check(item, source.pop(0))
    shape += source
    if not picked:
        return TensorType(tuple(shape), x.dtype)
    places = [place for place, _ in picked]
    neighbours = places == list(range(places[0], places[0] + len(places)))
    rest = [size for place, size in enumerate(shape) if place not in places]
    at = places[0] if neighbours else 0
    return TensorType((*rest[:at], *broadcast(*(common for _, common in picked)), *rest[at:]), x.dtype)


def _item(item: Any) -> Any:
    """One index; a list becomes the tensor that it stands for, an integer tensor without dimensions a number."""
    if isinstance(item, list | tuple):
        kind = dtypes.BOOL if item and isinstance(unwrap(item[0]), bool) else dtypes.INT64
        return TensorType((len(item),), kind)
    if isinstance(item, TensorType):
        if dtypes.is_floating(item.dtype):
            raise ShapeError(f"a tensor of {item.dtype.name} is no index")
        return 0 if not item.shape and item.dtype != dtypes.BOOL else item
    if isinstance(unwrap(item), bool):
        return TensorType((), dtypes.BOOL)
    return item


def _without_ellipsis(items: list[Any], rank: int) -> list[Any]:
    if Ellipsis not in [item for item in items if not isinstance(item, TensorType | slice)]:
        return items
    place = next(index for index, item in enumerate(items) if item is Ellipsis)
    used = sum(
        (item.rank if item.dtype == dtypes.BOOL else 1) if isinstance(item, TensorType) else 1
        for item in items
        if item is not None and item is not Ellipsis
    )
    return [*items[:place], *[slice(None)] * (rank - used), *items[place + 1 :]]


def _check(index: Any, size: Size) -> None:
    number = sizes.value(index)
    if not -sizes.value(size) <= number < sizes.value(size):
        raise ShapeError(f"index {number} is out of range for size {size}")


@rule("setitem")
def setitem(x: TensorType, index: Any, value: Any) -> TensorType:
    """The tensor after ``x[index] = value``."""
    place = getitem(x, index, symbol="data")
    for held in tensors([value]):
        common = list(map(sizes.value, broadcast(place.shape, held.shape)))
        # leading sizes of 1 are dropped where the place has fewer dimensions
        if common[len(common) - place.rank :] != list(map(sizes.value, place.shape)):
            raise ShapeError(f"a tensor of shape {held.shape} does not fit into a place of shape {place.shape}")
    return x


@rule("gather")
def gather(x: TensorType, dim: Any, index: TensorType, sparse_grad: bool = False) -> TensorType:
    sizes.axis(dim, x.rank)
    return TensorType(index.shape, x.dtype)


@rule("take_along_dim")
def take_along_dim(x: TensorType, indices: TensorType, dim: Any = None) -> TensorType:
    if dim is None:
        return TensorType((sizes.product(indices.shape),), x.dtype)
    where = sizes.axis(dim, x.rank)
    rest = broadcast(sizes.replaced(x.shape, where), sizes.replaced(indices.shape, where))
    return TensorType((*rest[:where], indices.shape[where], *rest[where:]), x.dtype)


@rule("index_select")
def index_select(x: TensorType, dim: Any, index: TensorType) -> TensorType:
    count = index.shape[0] if index.shape else 1
    return TensorType(sizes.replaced(x.shape, sizes.axis(dim, x.rank), count), x.dtype)


@rule("take")
def take(x: TensorType, index: TensorType) -> TensorType:
    return TensorType(index.shape, x.dtype)


@rule("embedding")
def embedding(x: TensorType, weight: TensorType, *settings: Any, **named: Any) -> TensorType:
    """Rows of ``weight`` ``[rows, width]`` at the places that ``x`` holds."""
    return TensorType((*x.shape, *weight.shape[1:]), weight.dtype)


@rule("scatter scatter_add scatter_reduce index_add index_copy index_fill index_put index_reduce")
def written(x: TensorType, *places: Any, **named: Any) -> TensorType:
    return x


@rule("masked_fill masked_scatter")
def masked(x: TensorType, mask: TensorType, *values: Any, **named: Any) -> TensorType:
    return TensorType(broadcast(x.shape, mask.shape), x.dtype)


@rule("masked_select", data_dependent=True)
def masked_select(x: TensorType, mask: TensorType, *, symbol: str) -> TensorType:
    broadcast(x.shape, mask.shape)
    return TensorType((unknown_size(symbol),), x.dtype)


@rule("where", data_dependent=True)
def where(condition: TensorType, x: Any = None, other: Any = None, *, symbol: str) -> Result:
    """A choice between two, or with one argument the places where it is true, one tensor a dimension."""
    if x is None or other is None:
        return nonzero(condition, as_tuple=True, symbol=symbol)
    shape = broadcast(*(held.shape for held in tensors((condition, x, other))))
    return TensorType(shape, dtypes.result_type((x, other)))


@rule("nonzero", data_dependent=True)
def nonzero(x: TensorType, as_tuple: bool = False, *, symbol: str) -> Result:
    found = unknown_size(symbol)
    if as_tuple:
        return (TensorType((found,), dtypes.INT64),) * max(x.rank, 1)
    return TensorType((found, x.rank), dtypes.INT64)


@rule("argwhere", data_dependent=True)
def argwhere(x: TensorType, *, symbol: str) -> Result:
    return nonzero(x, symbol=symbol)


@rule("one_hot", data_dependent=True)
def one_hot(x: TensorType, num_classes: int | Scalar = -1, *, symbol: str) -> TensorType:
    classes = unknown_size(symbol) if sizes.value(num_classes) == -1 else sizes.as_size(num_classes)
    return TensorType((*x.shape, classes), dtypes.INT64)
