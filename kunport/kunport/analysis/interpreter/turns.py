"""Turns of a loop over groups of modules: layers that have no class, and so no call, of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kunport.analysis.interpreter.scope import Scope
from kunport.analysis.values import Instance, Tensor, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

_GROUPS = ("torch.nn.ModuleList", "torch.nn.ModuleDict")


@contextmanager
def as_layer(interpreter: Interpreter, value: Value, scope: Scope) -> Iterator[None]:
    """Around a turn for a value: the frame of a module call where it is, or holds, a group of modules.

    The frame takes the tensors that the source has names for, and gives those that the turn binds anew.
    """
    group = _group(value)
    if group is None or interpreter.trace.frame == 0:  # in the constructor nothing is called
        yield
        return
    before = {name: (held, held.id) for name, held in scope.variables.items() if isinstance(held, Tensor)}
    with interpreter.trace.entered("module", group.cls.short, group.path or "") as frame:
        frame.inputs = interpreter.arguments({name: held for name, (held, _) in before.items()})
        yield
        after = ((scope.variables.get(name), each) for name, each in before.items())
        bound = [now for now, (held, was) in after if isinstance(now, Tensor) and (now is not held or now.id != was)]
        frame.output = interpreter.argument_or_none(bound[0] if len(bound) == 1 else tuple(bound))


def _group(value: Value) -> Instance | None:
    """The numbered list or dictionary of modules that a loop's value is, or the first in a tuple of such."""
    if isinstance(value, tuple):
        return next((found for each in value if (found := _group(each)) is not None), None)
    held = value.items if isinstance(value, Instance) and value.cls.name in _GROUPS and value.path else None
    parts = list(held.values()) if isinstance(held, dict) else held or []
    return value if parts and all(isinstance(each, Instance) for each in parts) else None
