"""Tensors that share memory with the tensor they were cut from.

The graph is functional, so sharing is kept by hand: a write through a view is written back to its base, and a view of
a tensor that was written to is cut again when it is next read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kunport_codegen.expression import unwrap

from kunport.analysis.interpreter.signals import NotUnderstoodError
from kunport.analysis.values import Tensor, Value, View

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

VIEWS = {"getitem", "reshape", "transpose", "permute", "unsqueeze", "squeeze"}
# Results that share memory as well, and through which nobody follows a write: one is said to be not understood.
SHARING = {"select", "narrow", "split", "tensor_split", "chunk", "unbind", "diagonal", "unflatten", "flatten", "unfold"}


def attach(result: Tensor, op: str, args: tuple[Value, ...]) -> None:
    """Notes that ``result`` is ``op`` of ``args[0]`` and shares its memory; an index that copies shares none."""
    base = args[0]
    if op == "getitem" and _holds_tensor(args[1]):
        return
    result.view = View(base, op, args[1:], base.version)


def _holds_tensor(index: Value) -> bool:
    if isinstance(index, tuple | list):
        return any(map(_holds_tensor, index)) or isinstance(index, list)
    return isinstance(index, Tensor)


def refresh(interpreter: Interpreter, cell: Tensor) -> None:
    view = cell.view
    if view is None or view.op in SHARING:
        return
    refresh(interpreter, view.base)
    if view.version != view.base.version:
        current = interpreter.operator(view.op, (view.base, *view.args), {})
        cell.id, view.version = current.id, view.base.version
        cell.version += 1


def write_back(interpreter: Interpreter, cell: Tensor) -> None:
    """After a write to ``cell``: puts what it holds into the tensor it is a view of.

    Raises:
        NotUnderstoodError: the view cannot be undone.
    """
    view = cell.view
    if view is None:
        return
    cell.view = None  # what is written back is a value, not a view
    if view.op == "getitem":
        interpreter.write_item(view.base, view.args[0], cell)
    elif view.op in ("reshape", "unsqueeze", "squeeze"):
        interpreter.write(view.base, interpreter.operator("reshape", (cell, view.base.type.shape), {}))
    elif view.op == "transpose":
        interpreter.write(view.base, interpreter.operator("transpose", (cell, *view.args), {}))
    elif view.op == "permute":
        order = [int(unwrap(dim)) % len(view.args[0]) for dim in view.args[0]]
        inverse = tuple(order.index(dim) for dim in range(len(order)))
        interpreter.write(view.base, interpreter.operator("permute", (cell, inverse), {}))
    else:
        raise NotUnderstoodError(f"a write through a tensor made by {view.op}")
    view.version = view.base.version
    cell.view = view
