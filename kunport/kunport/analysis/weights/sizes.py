"""The shape that the operations of a rename make of the shapes on disk.

Tensors come in groups: one for each source of the rename, the tensors that it gathers in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Shape = tuple[int, ...]
Groups = list[list[Shape]]


class MisfitError(Exception):
    """The shapes cannot be put together as the operation wants; the message says why."""


class UnknownOperationError(Exception):
    """An operation of Transformers that has no name here; the message is its name."""


def combined(operations: Sequence[str], groups: Groups) -> Shape:
    """The one shape that is left after every operation; see `kunport_codegen.graph.Rename` for what they do.

    Raises:
        MisfitError: the shapes do not go together.
        UnknownOperationError: an operation is not known.
    """
    for operation in operations:
        name, _, parameters = operation.partition(":")
        if name not in _OPERATIONS:
            raise UnknownOperationError(parameters or name)
        groups = _OPERATIONS[name](groups, [int(each) for each in parameters.split(",")] if parameters else [])
    shapes = [shape for group in groups for shape in group]
    if len(shapes) != 1:
        raise MisfitError(f"{len(shapes)} tensors are left where one is wanted")
    return shapes[0]


def _stack(groups: Groups, _: list[int]) -> Groups:
    for group in groups:
        if len(set(group)) > 1:
            raise MisfitError(f"tensors that are stacked differ in shape: {_list(group)}")
    return [[(len(group), *group[0])] for group in groups if group]


def _concatenate(groups: Groups, numbers: list[int]) -> Groups:
    shapes = [shape for group in groups for shape in group]
    dim = _dim(numbers[0], shapes)
    if len({shape[:dim] + shape[dim + 1 :] for shape in shapes}) > 1:
        raise MisfitError(f"tensors that are joined along dimension {dim} differ in another: {_list(shapes)}")
    return [[_with(shapes[0], dim, sum(shape[dim] for shape in shapes))]]


def _chunk(groups: Groups, numbers: list[int]) -> Groups:
    count = numbers[2]
    dim = _dim(numbers[0], [shape for group in groups for shape in group])
    for shape in (shape for group in groups for shape in group):
        if shape[dim] % count:
            raise MisfitError(f"{list(shape)} cannot be cut into {count} equal parts along dimension {dim}")
    return [[_with(shape, dim, shape[dim] // count) for shape in group] for group in groups]


def _transpose(groups: Groups, numbers: list[int]) -> Groups:
    shapes = [shape for group in groups for shape in group]
    first, second = (_dim(number, shapes) for number in numbers)
    return [[_with(_with(shape, first, shape[second]), second, shape[first]) for shape in group] for group in groups]


def _deinterleave(groups: Groups, numbers: list[int]) -> Groups:
    dim = _dim(numbers[0], [shape for group in groups for shape in group])
    for shape in (shape for group in groups for shape in group):
        if shape[dim] % 2:
            raise MisfitError(f"{list(shape)} has no even and odd halves along dimension {dim}")
    return groups


_OPERATIONS: dict[str, Callable[[Groups, list[int]], Groups]] = {
    "stack": _stack,
    "concatenate": _concatenate,
    "chunk": _chunk,
    "transpose": _transpose,
    "deinterleave": _deinterleave,
}


def _dim(number: int, shapes: Sequence[Shape]) -> int:
    """A dimension that every shape has, counted from the front."""
    ranks = {len(shape) for shape in shapes}
    if len(ranks) != 1:
        raise MisfitError(f"tensors that belong together differ in their number of dimensions: {_list(shapes)}")
    (rank,) = ranks
    if not -rank <= number < rank:
        raise MisfitError(f"{list(shapes[0])} has no dimension {number}")
    return number % rank


def _with(shape: Shape, dim: int, size: int) -> Shape:
    return (*shape[:dim], size, *shape[dim + 1 :])


def _list(shapes: Sequence[Shape]) -> str:
    return ", ".join(str(list(shape)) for shape in dict.fromkeys(shapes))
