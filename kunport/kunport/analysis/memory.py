"""What a model remembers from one run to the next: its cache, and tensors that its modules keep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kunport_codegen.expression import Scalar, evaluate, read_field, substitute, symbols_of, unwrap
from kunport_codegen.graph import Ref

from kunport.analysis.assemble import BATCH
from kunport.analysis.interpreter import Interpreter
from kunport.analysis.interpreter.views import refresh
from kunport.analysis.shapes import TensorType
from kunport.analysis.values import Instance, Tensor, Value

Part = tuple[str, Value, Value, Value]


@dataclass(frozen=True, slots=True)
class Memory:
    """Where it is.

    Attributes:
        caches: objects, lists and dictionaries of the source, by the names that the model's forward takes them by.
        kept: (path of a module, the module, name of its attribute) of each tensor that a module keeps.
    """

    caches: dict[str, Value]
    kept: list[tuple[str, Instance, str]]

    def states(self, interpreter: Interpreter) -> dict[str, Ref]:
        """The tensors by path."""
        found = {}
        for path, value, _, _ in self._parts():
            if isinstance(value, Tensor):
                refresh(interpreter, value)
                found[path] = Ref(value.id)
        return found

    def age(self, interpreter: Interpreter, past: Scalar) -> None:
        """Makes what a run left what the next run finds: its tensors states, its tokens past."""

        def aged(size: Value) -> Value:
            if not isinstance(size, Scalar):
                return size
            return Scalar(size.value, substitute(size.expr, {"sequence": past.expr}))

        done: set[Tensor] = set()
        for path, value, holder, key in [*self._parts()]:
            if isinstance(value, Tensor) and value not in done:
                done.add(value)
                value.type = TensorType(tuple(map(aged, value.type.shape)), value.type.dtype)
                value.id = interpreter.trace.emit("state", (path,), kind=value.type).id
                value.view = None
                value.version += 1
            elif isinstance(value, Scalar) and not isinstance(holder, tuple):
                holder[key] = aged(value)

    def form(self, config: dict[str, Any], past: int) -> dict[str, Any]:
        """Numbers and shapes when it holds ``past`` tokens: what tells whether two memories are of one form."""

        def number(value: Value) -> Any:
            if not isinstance(value, Scalar) or not symbols_of(value.expr) <= {"batch", "past"}:
                return str(value.expr) if isinstance(value, Scalar) else value
            return evaluate(value.expr, lambda path: read_field(config, path), {"batch": unwrap(BATCH), "past": past})

        found: dict[str, Any] = {}
        for path, value, _, _ in self._parts():
            if isinstance(value, Tensor):
                found[path] = (tuple(map(number, value.type.shape)), value.type.dtype)
            elif isinstance(value, Scalar | bool | int | float | str | None):
                found[path] = number(value)
        return found

    def _parts(self) -> Iterator[Part]:
        seen: set[int] = set()
        for cache in self.caches.values():
            yield from _parts(cache, "", seen)
        for path, instance, name in self.kept:
            yield f"{path}.{name}", instance.attributes[name], instance.attributes, name


def _parts(value: Value, path: str, seen: set[int]) -> Iterator[Part]:
    """What a value holds: (path, value, its holder, its key there), each object once, in order."""
    pairs: list[tuple[str, Value, Value]]
    holder: Value = value
    if isinstance(value, Instance):
        pairs = [(f"{path}.{name}".lstrip("."), name, held) for name, held in value.attributes.items()]
        holder = value.attributes
    elif isinstance(value, dict):
        pairs = [(f"{path}[{key!r}]", key, held) for key, held in value.items()]
    elif isinstance(value, list | tuple):
        pairs = [(f"{path}[{key}]", key, held) for key, held in enumerate(value)]
    else:
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    for inner, key, held in pairs:
        yield inner, held, holder, key
        yield from _parts(held, inner, seen)
