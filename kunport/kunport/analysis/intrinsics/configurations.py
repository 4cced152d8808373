"""The configuration of code that has no class for it: a namespace and a dictionary in one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kunport_codegen.expression import unwrap

from kunport.analysis.interpreter.signals import RaisedError
from kunport.analysis.intrinsics.registry import NAMES, member
from kunport.analysis.values import Instance, NativeClass, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

configuration = NativeClass("configuration")
# A part of it also passes for the dictionary that it may be.
part = NativeClass("configuration part", (configuration, NAMES["builtins.dict"]))


@member(configuration, "__getitem__", raw=True)
def _item(interpreter: Interpreter, this: Instance, key: Value) -> Value:
    name = interpreter.pin(key)
    if name not in this.attributes:
        raise RaisedError("KeyError", f"{configuration.name} has no {name}")
    return this.attributes[name]


@member(configuration, "__setitem__", raw=True)
def _set_item(interpreter: Interpreter, this: Instance, key: Value, value: Value) -> None:
    this.attributes[interpreter.pin(key)] = value


@member(configuration, "__contains__", raw=True)
def _contains(interpreter: Interpreter, this: Instance, key: Value) -> Value:
    return unwrap(key) in this.attributes


@member(configuration, "__iter__", "keys", raw=True)
def _keys(interpreter: Interpreter, this: Instance) -> Value:
    return list(this.attributes)


@member(configuration, "__len__", raw=True)
def _len(interpreter: Interpreter, this: Instance) -> Value:
    return len(this.attributes)


@member(configuration, "values", raw=True)
def _values(interpreter: Interpreter, this: Instance) -> Value:
    return list(this.attributes.values())


@member(configuration, "items", raw=True)
def _items(interpreter: Interpreter, this: Instance) -> Value:
    return list(this.attributes.items())


@member(configuration, "get", raw=True)
def _get(interpreter: Interpreter, this: Instance, key: Value, default: Value = None) -> Value:
    return this.attributes.get(interpreter.pin(key), default)


@member(configuration, "pop", "setdefault", raw=True)
def _take(interpreter: Interpreter, this: Instance, key: Value, default: Value = None) -> Value:
    return this.attributes.setdefault(interpreter.pin(key), default)


@member(configuration, "update", raw=True)
def _update(interpreter: Interpreter, this: Instance, values: Value = (), **named: Value) -> None:
    this.attributes.update(interpreter.mapping(values), **named)


@member(configuration, "copy", raw=True)
def _copy(interpreter: Interpreter, this: Instance) -> Value:
    return Instance(this.cls, dict(this.attributes))


@member(configuration, "to_dict", raw=True)
def _to_dict(interpreter: Interpreter, this: Instance) -> Value:
    return dict(this.attributes)
