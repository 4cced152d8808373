"""torch.nn's containers of modules and parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kunport_codegen.expression import unwrap

from kunport.analysis.interpreter.signals import RaisedError
from kunport.analysis.intrinsics.modules import items, module
from kunport.analysis.intrinsics.registry import member, native_class
from kunport.analysis.values import Instance, Native, Value, is_subclass

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

sequence = native_class("torch.nn.ModuleList", module)
sequential = native_class("torch.nn.Sequential", module)
parameter_list = native_class("torch.nn.ParameterList", module)
dictionary = native_class("torch.nn.ModuleDict", module)
parameter_dictionary = native_class("torch.nn.ParameterDict", module)


@member(sequence, "__init__", raw=True)
@member(parameter_list, "__init__", raw=True)
def _list_init(interpreter: Interpreter, this: Instance, values: Value = ()) -> None:
    this.items = list(interpreter.iterate(values)) if values is not None else []


@member(sequential, "__init__", raw=True)
def _sequential_init(interpreter: Interpreter, this: Instance, *values: Value) -> None:
    named = len(values) == 1 and (isinstance(values[0], dict) or is_subclass(values[0].cls, "collections.OrderedDict"))
    this.items = dict(interpreter.mapping(values[0])) if named else list(values)


@member(dictionary, "__init__", raw=True)
@member(parameter_dictionary, "__init__", raw=True)
def _dictionary_init(interpreter: Interpreter, this: Instance, values: Value = ()) -> None:
    this.items = dict(interpreter.mapping(values or ()))


def _getitem(interpreter: Interpreter, this: Instance, key: Value) -> Value:
    if isinstance(key, slice) and isinstance(this.items, list):
        part = this.items[slice(*(unwrap(each) for each in (key.start, key.stop, key.step)))]
        return Instance(this.cls, items=part, path=this.path)
    bare = interpreter.pin(key)
    try:
        return this.items[bare] if isinstance(this.items, dict) and isinstance(bare, str) else items(this)[bare]
    except (KeyError, IndexError) as error:
        raise RaisedError(type(error).__name__, str(error)) from None


def _setitem(interpreter: Interpreter, this: Instance, key: Value, value: Value) -> None:
    interpreter.set_item(this.items, key, value)


def _contains(interpreter: Interpreter, this: Instance, key: Value) -> Value:
    return interpreter.pin(key) in (this.items or ())


_CONTAINED: dict[str, Any] = {
    "__getitem__": _getitem,
    "__setitem__": _setitem,
    "__contains__": _contains,
    "__len__": lambda interpreter, this: len(this.items),
    "__iter__": lambda interpreter, this: list(this.items),
    "append": lambda interpreter, this, value: this.items.append(value),
    "extend": lambda interpreter, this, values: this.items.extend(interpreter.iterate(values)),
    "insert": lambda interpreter, this, at, value: this.items.insert(unwrap(at), value),
    "keys": lambda interpreter, this: list(this.items),
    "values": lambda interpreter, this: list(this.items.values()),
    "items": lambda interpreter, this: list(this.items.items()),
    "update": lambda interpreter, this, values: this.items.update(interpreter.mapping(values)),
}
for _cls in (sequence, sequential, parameter_list, dictionary, parameter_dictionary):
    for _name, _function in _CONTAINED.items():
        _cls.members[_name] = Native(f"{_cls.name}.{_name}", _function, raw=True)


@member(sequential, "__getattr__", raw=True)
@member(dictionary, "__getattr__", raw=True)
@member(parameter_dictionary, "__getattr__", raw=True)
def _child(interpreter: Interpreter, this: Instance, name: Value) -> Value:
    """What a dictionary of modules holds is also an attribute of it: ``self.transformer.wte``."""
    if isinstance(this.items, dict) and name in this.items:
        return this.items[name]
    raise RaisedError("AttributeError", f"{this.cls.short} has no attribute {name}")


@member(sequential, "forward", raw=True)
def _sequential_forward(interpreter: Interpreter, this: Instance, x: Value) -> Value:
    for each in items(this):
        x = interpreter.call(each, [x], {})
    return x
