"""Whether a checkpoint's tensors are the model's: all there, and of the shapes that the configuration gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import Graph, Rename

from kunport.analysis.checkpoint import StoredTensor, read_checkpoint
from kunport.errors import KunportError

Shape = tuple[int, ...]


def check_fit(graph: Graph, folder: Path, missing: Sequence[str]) -> None:
    """Compare a checkpoint's headers with the model's tensors; ``missing`` are those that no tensor on disk fills.

    Raises:
        KunportError: a tensor is missing, other than one that shares another's, or has another shape.
    """
    tied = {path for path, _ in graph.tied}
    if absent := [path for path in missing if path not in tied]:
        count = f"{len(absent)} tensors of the model, {absent[0]} for one" if len(absent) > 1 else absent[0]
        raise KunportError(f"{folder} lacks {count}.", "Copy the checkpoint again, completely.")
    stored = read_checkpoint(folder)
    for path, parameter in graph.parameters.items():
        expected = tuple(unwrap(size) for size in parameter.shape)
        names, shape = _on_disk(path, graph.renames, stored)
        if shape is not None and shape != expected:
            raise KunportError(
                f"{names[0]} in {stored[names[0]].file} gives {path} the shape {list(shape)}, "
                f"and the configuration makes it {list(expected)}.",
                "Use weights and a config.json that belong together.",
            )


def _on_disk(path: str, renames: Sequence[Rename], stored: dict[str, StoredTensor]) -> tuple[list[str], Shape | None]:
    """The names that a tensor of the model has on disk, and the shape that they give it; None where that is unknown."""
    for rename in renames:
        found = re.fullmatch(_numbered(rename.target), path)
        if found is None:
            continue
        groups = [_gathered(source, found.groups(), stored) for source in rename.sources]
        shapes = [[stored[name].shape for name in group] for group in groups]
        return [name for group in groups for name in group], _apply(rename.operations, shapes)
    return [path], stored[path].shape if path in stored else None


def _numbered(pattern: str) -> str:
    return re.escape(pattern).replace(r"\*", r"(\d+)")


def _gathered(source: str, numbers: Sequence[str], stored: dict[str, StoredTensor]) -> list[str]:
    """The names of a source pattern with the target's numbers in it, one for each value of a number that is left."""
    for number in numbers[: source.count("*")]:
        source = source.replace("*", number, 1)
    if "*" not in source:
        return [source] if source in stored else []
    matches = ((re.fullmatch(_numbered(source), name), name) for name in stored)
    return [name for _, name in sorted((int(found[1]), name) for found, name in matches if found is not None)]


def _apply(operations: Sequence[str], groups: list[list[Shape]]) -> Shape | None:
    """The shape that a rename's operations make of the shapes on disk."""
    for operation in operations:
        name, _, parameters = operation.partition(":")
        if name == "unknown" or not all(groups):
            return None
        numbers = [int(each) for each in parameters.split(",")] if parameters else []
        groups = list(_STEPS[name](groups, numbers))
    shapes = [shape for group in groups for shape in group]
    return shapes[0] if len(shapes) == 1 else None


def _stack(groups: list[list[Shape]], _: list[int]) -> Iterator[list[Shape]]:
    for group in groups:
        odd = min(group, key=group.count)  # all are the same in a sound checkpoint; else the one that is not shows
        yield [(len(group), *odd)]


def _concatenate(groups: list[list[Shape]], numbers: list[int]) -> Iterator[list[Shape]]:
    shapes = [shape for group in groups for shape in group]
    yield [_with(shapes[0], numbers[0], sum(shape[numbers[0]] for shape in shapes))]


def _chunk(groups: list[list[Shape]], numbers: list[int]) -> Iterator[list[Shape]]:
    dim, _, count = numbers
    for group in groups:
        yield [_with(shape, dim, shape[dim] // count) for shape in group]


def _transpose(groups: list[list[Shape]], numbers: list[int]) -> Iterator[list[Shape]]:
    first, second = numbers
    for group in groups:
        yield [_with(_with(shape, first, shape[second]), second, shape[first]) for shape in group]


def _with(shape: Shape, dim: int, size: int) -> Shape:
    sizes = list(shape)
    sizes[dim] = size
    return tuple(sizes)


def _deinterleave(groups: list[list[Shape]], _: list[int]) -> Iterator[list[Shape]]:
    yield from groups


_STEPS: dict[str, Callable[[list[list[Shape]], list[int]], Iterator[list[Shape]]]] = {
    "stack": _stack,
    "concatenate": _concatenate,
    "chunk": _chunk,
    "transpose": _transpose,
    "deinterleave": _deinterleave,
}
