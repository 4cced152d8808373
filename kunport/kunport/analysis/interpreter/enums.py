"""Members of enumerations: objects with a name and a value, made when they are first asked for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeGuard

from kunport.analysis.interpreter.signals import RaisedError
from kunport.analysis.values import Function, Instance, Native, SourceClass, Value, is_subclass

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

ENUM = "enum.Enum"
AUTO = "enum.auto"


def is_enumeration(value: Value) -> TypeGuard[SourceClass]:
    return isinstance(value, SourceClass) and is_subclass(value, ENUM)


def member(interpreter: Interpreter, cls: SourceClass, name: str, value: Value) -> Value:
    """What a name of the class's body stands for: the member, unless the name is private or a method's."""
    if (
        name.startswith("_")
        or isinstance(value, Function | Native)
        or (isinstance(value, Instance) and value.cls is cls)
    ):
        return value
    if isinstance(value, Instance) and value.cls.name == AUTO:
        value = list(_names(cls)).index(name) + 1
        if is_subclass(cls, "enum.StrEnum"):
            value = name.lower()
    made = Instance(cls, {"name": name, "value": value, "_name_": name, "_value_": value})
    if (initializer := interpreter.find(made, "__init__")) is not None and any(
        "__init__" in each.members for each in cls.mro if isinstance(each, SourceClass)
    ):
        interpreter.call(initializer, list(value) if isinstance(value, tuple) else [value], {})
    return made


def members(interpreter: Interpreter, cls: SourceClass) -> list[Instance]:
    """All members, in their order."""
    found = [interpreter.own_member(cls, name) for name in _names(cls)]
    return [each for each in found if isinstance(each, Instance) and each.cls is cls]


def _names(cls: SourceClass) -> Iterator[str]:
    for statement in cls.node.body:
        if isinstance(statement, ast.Assign):
            yield from (each.id for each in statement.targets if isinstance(each, ast.Name) and each.id[0] != "_")


def by_value(interpreter: Interpreter, cls: SourceClass, value: Value) -> Instance:
    """``Color("red")``. Raises `RaisedError` where no member has the value."""
    if isinstance(value, Instance) and value.cls is cls:
        return value
    bare = interpreter.pin(value)
    for each in members(interpreter, cls):
        if interpreter.pin(each.attributes["value"]) == bare:
            return each
    missing = interpreter.attribute(cls, "_missing_") if "_missing_" in cls.members else None
    if missing is not None:
        found = interpreter.call(missing, [value], {})
        if isinstance(found, Instance):
            return found
    raise RaisedError("ValueError", f"{bare!r} is not a valid {cls.name}")


def by_name(interpreter: Interpreter, cls: SourceClass, name: Value) -> Instance:
    """``Color["RED"]``. Raises `RaisedError` where no member has the name."""
    bare = interpreter.pin(name)
    for each in members(interpreter, cls):
        if each.attributes["name"] == bare:
            return each
    raise RaisedError("KeyError", str(bare))
