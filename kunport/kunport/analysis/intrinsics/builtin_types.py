"""Python's built-in types, constants and exceptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kunport_codegen.expression import Scalar, symbols_of, unwrap

from kunport.analysis.interpreter import attributes
from kunport.analysis.interpreter.operations import describe, is_tensor, scalar_operator
from kunport.analysis.interpreter.signals import NotUnderstoodError
from kunport.analysis.intrinsics.registry import NAMES, member, native_class
from kunport.analysis.trace import origins
from kunport.analysis.values import (
    Instance,
    OrderedSet,
    Span,
    Tensor,
    Value,
)

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

Maker = Callable[..., Value]

object_class = native_class("builtins.object")


@member(object_class, "__setattr__", raw=True)
def _set_plainly(interpreter: Interpreter, this: Value, name: Value, new: Value) -> None:
    attributes.store(interpreter, this, interpreter.pin(name), new)


for _name in ("None", "True", "False", "Ellipsis", "NotImplemented"):
    NAMES[f"builtins.{_name}"] = {"None": None, "True": True, "False": False}.get(_name, ...)
_EXCEPTIONS = (
    *(
        "Exception",
        "BaseException",
        "ValueError",
        "TypeError",
        "KeyError",
        "IndexError",
        "AttributeError",
        "RuntimeError",
    ),
    *(
        "NotImplementedError",
        "ImportError",
        "ModuleNotFoundError",
        "AssertionError",
        "NameError",
        "LookupError",
        "OSError",
    ),
    *("ZeroDivisionError", "StopIteration", "Warning", "UserWarning", "DeprecationWarning", "FutureWarning"),
    *("FileNotFoundError", "OverflowError", "ArithmeticError", "EnvironmentError"),
)
for _name in _EXCEPTIONS:
    member(native_class(f"builtins.{_name}"), "__init__", raw=True)(lambda interpreter, this, *args, **kwargs: None)

# The Python type that a built-in class stands for, in checks of types.
PYTHON_TYPES: dict[str, type | tuple[type, ...]] = {
    "int": int,
    "float": float,
    "bool": bool,
    "str": str,
    "list": list,
    "tuple": tuple,
    "slice": slice,
    "set": OrderedSet,
    "frozenset": OrderedSet,
    "bytes": bytes,
    "range": range,
}


def _type(name: str) -> Callable[[Maker], Maker]:
    """Registers a built-in type by the function that makes its values."""

    def register(function: Maker) -> Maker:
        cls = native_class(f"builtins.{name}")
        member(cls, "__new__", raw=True)(
            lambda interpreter, cls, *args, **kwargs: function(interpreter, *args, **kwargs)
        )
        return function

    return register


def _number(name: str, convert: type) -> None:
    def make(interpreter: Interpreter, value: Value = 0, *rest: Value) -> Value:
        if isinstance(value, Tensor) and not value.type.shape:
            return value  # a number that only the data tell; it still works as an index or an operand
        if is_tensor(value):
            raise NotUnderstoodError(f"{name}() of {describe(value)}")
        if rest or isinstance(unwrap(value), str):
            return convert(interpreter.pin(value), *rest)
        return scalar_operator(interpreter, name, value)

    _type(name)(make)


for _name, _convert in (("int", int), ("float", float)):
    _number(_name, _convert)


@_type("bool")
def _bool(interpreter: Interpreter, value: Value = False) -> Value:
    return interpreter.truth(value)


@_type("str")
def _str(interpreter: Interpreter, value: Value = "", *rest: Value) -> Value:
    if isinstance(value, Scalar | str | int | float | None):
        return str(interpreter.pin(value))
    return describe(value)


@_type("list")
def _list(interpreter: Interpreter, values: Value = ()) -> Value:
    return interpreter.iterate(values)


@_type("tuple")
def _tuple(interpreter: Interpreter, values: Value = ()) -> Value:
    return tuple(interpreter.iterate(values))


@_type("set")
def _set(interpreter: Interpreter, values: Value = ()) -> Value:
    return OrderedSet(interpreter.pin(each) for each in interpreter.iterate(values))


_type("frozenset")(_set)


@_type("slice")
def _slice(interpreter: Interpreter, *bounds: Value) -> Value:
    return slice(*bounds)


@_type("range")
def _range(interpreter: Interpreter, *bounds: Value) -> Value:
    numbers = [unwrap(bound) for bound in bounds]
    if not all(isinstance(number, int) for number in numbers):
        raise NotUnderstoodError("a range whose bounds are not known")
    if any(isinstance(bound, Scalar) and symbols_of(bound.expr) for bound in bounds):
        start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
        return Span((start, stop, step), range(*numbers))
    if fields := origins(bound.expr for bound in bounds if isinstance(bound, Scalar)):
        interpreter.trace.counts.append(fields)
    return range(*numbers)


@_type("dict")
def _dict(interpreter: Interpreter, values: Value = (), **named: Value) -> Value:
    return {**interpreter.mapping(values), **named}


@member(NAMES["builtins.dict"], "fromkeys", raw=True)
def _fromkeys(interpreter: Interpreter, keys: Value, value: Value = None) -> Value:
    return {interpreter.pin(key): value for key in interpreter.iterate(keys)}


@_type("type")
def _type_of(interpreter: Interpreter, value: Value, *rest: Value) -> Value:
    if isinstance(value, Instance):
        return value.cls
    if is_tensor(value):
        return NAMES["torch.Tensor"]
    return NAMES.get(f"builtins.{type(unwrap(value)).__name__}", object_class)
