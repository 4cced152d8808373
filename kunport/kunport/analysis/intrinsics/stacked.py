"""``stack`` and ``cat``: also of lists that a loop over sizes filled, which are one tensor already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kunport_codegen.expression import unwrap

from kunport.analysis.intrinsics.registry import native
from kunport.analysis.shapes import sizes
from kunport.analysis.values import Stacked, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter


@native("torch.stack")
def _stack(interpreter: Interpreter, tensors: Value, dim: Value = 0, **options: Value) -> Value:
    if not isinstance(tensors, Stacked):
        return interpreter.operator("stack", (tensors, dim), options)
    return _at(interpreter, tensors, dim, len(tensors.rows.type.shape))


@native("torch.cat", "torch.concat", "torch.concatenate")
def _cat(interpreter: Interpreter, tensors: Value, dim: Value = 0, **options: Value) -> Value:
    if not isinstance(tensors, Stacked):
        return interpreter.operator("cat", (tensors, options.pop("axis", dim)), options)
    rank = len(tensors.rows.type.shape) - 1
    place = unwrap(dim) % rank
    moved = _at(interpreter, tensors, place, rank)
    shape = moved.type.shape
    joined = sizes.product(shape[place : place + 2])
    return interpreter.operator("reshape", (moved, (*shape[:place], joined, *shape[place + 2 :])), {})


def _at(interpreter: Interpreter, tensors: Stacked, dim: Value, rank: int) -> Value:
    """The stacked tensors with their number as dimension ``dim`` of ``rank``."""
    place = unwrap(dim) % rank
    return interpreter.operator("movedim", (tensors.rows, 0, place), {}) if place else tensors.rows
