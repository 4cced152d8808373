"""Model outputs of Transformers: dataclasses whose items are the fields that are not None."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kunport.analysis.intrinsics.registry import member, native_class
from kunport.analysis.values import Instance, Native, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

output = native_class("transformers.utils.generic.ModelOutput")


def _present(this: Instance) -> dict[str, Value]:
    return {key: value for key, value in this.attributes.items() if value is not None}


@member(output, "__getitem__", raw=True)
def _output_item(interpreter: Interpreter, this: Instance, key: Value) -> Value:
    bare = interpreter.pin(key) if not isinstance(key, slice) else key
    return this.attributes[bare] if isinstance(bare, str) else tuple(_present(this).values())[bare]


@member(output, "__setitem__", raw=True)
def _output_set(interpreter: Interpreter, this: Instance, key: Value, value: Value) -> None:
    this.attributes[interpreter.pin(key)] = value


_OUTPUT: dict[str, Any] = {
    "__iter__": lambda interpreter, this: list(_present(this)),
    "__len__": lambda interpreter, this: len(_present(this)),
    "__contains__": lambda interpreter, this, key: interpreter.pin(key) in _present(this),
    "keys": lambda interpreter, this: list(_present(this)),
    "values": lambda interpreter, this: list(_present(this).values()),
    "items": lambda interpreter, this: list(_present(this).items()),
    "to_tuple": lambda interpreter, this: tuple(_present(this).values()),
    "get": lambda interpreter, this, key, default=None: _present(this).get(interpreter.pin(key), default),
}
for _name, _function in _OUTPUT.items():
    output.members[_name] = Native(f"transformers.ModelOutput.{_name}", _function, raw=True)
