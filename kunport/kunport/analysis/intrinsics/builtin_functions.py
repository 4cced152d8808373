"""Python's built-in functions."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING

from kunport_codegen.expression import Scalar, unwrap

from kunport.analysis.interpreter import limits
from kunport.analysis.interpreter.operations import binary, describe, is_tensor, plain, scalar_operator, with_fields
from kunport.analysis.interpreter.signals import NotUnderstoodError, RaisedError
from kunport.analysis.intrinsics.builtin_types import PYTHON_TYPES
from kunport.analysis.intrinsics.registry import TENSOR_MEMBERS, native
from kunport.analysis.shapes import RULES, canonical
from kunport.analysis.values import (
    Bound,
    FieldDict,
    FieldList,
    Function,
    Instance,
    Native,
    NativeClass,
    Opaque,
    OrderedSet,
    Partial,
    SourceClass,
    Tensor,
    Value,
)

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter


@native("builtins.isinstance", raw=True)
def _isinstance(interpreter: Interpreter, value: Value, kinds: Value) -> Value:
    if isinstance(kinds, tuple | list):
        return any(_isinstance(interpreter, value, kind) for kind in kinds)
    if kinds is None:
        return value is None
    if isinstance(value, Instance) and isinstance(kinds, SourceClass | NativeClass):
        return kinds in value.cls.mro
    name = kinds.name.rpartition(".")[2] if isinstance(kinds, NativeClass | Opaque) else ""
    if is_tensor(value):
        if not isinstance(value, Tensor) and name not in ("int", "float", "str", "bool", "dict"):
            raise NotUnderstoodError(f"the type of {describe(value)}")
        if isinstance(kinds, Native):  # a parameter is known by its maker, `torch.nn.Parameter`
            return value.state is not None and not value.state.buffer and kinds.name.endswith("Parameter")
        return name in ("Tensor", "LongTensor", "FloatTensor", "BoolTensor", "IntTensor")
    bare = unwrap(value)
    if name in ("dict", "Mapping", "OrderedDict"):
        return isinstance(bare, dict) and not isinstance(bare, OrderedSet)
    if name in ("Iterable", "Sequence"):
        return isinstance(bare, list | tuple | dict | range | str)
    if name == "Callable":
        return _callable(interpreter, value)
    return isinstance(bare, PYTHON_TYPES[name]) if name in PYTHON_TYPES else False


@native("builtins.issubclass", raw=True)
def _issubclass(interpreter: Interpreter, cls: Value, kinds: Value) -> Value:
    kinds = kinds if isinstance(kinds, tuple) else (kinds,)
    return isinstance(cls, SourceClass | NativeClass) and any(kind in cls.mro for kind in kinds)


@native("builtins.callable", raw=True)
def _callable(interpreter: Interpreter, value: Value) -> Value:
    return isinstance(value, Function | Native | Bound | Partial | SourceClass | NativeClass) or (
        isinstance(value, Instance) and interpreter.find(value, "__call__") is not None
    )


@native("builtins.getattr", raw=True)
def _getattr(interpreter: Interpreter, value: Value, name: Value, *default: Value) -> Value:
    if default and _is_no_attribute(value, name):
        return default[0]
    try:
        with interpreter.handling():
            return interpreter.attribute(value, interpreter.pin(name))
    except RaisedError as raised:
        if default and raised.name == "AttributeError":
            return default[0]
        raise


def _is_no_attribute(value: Value, name: Value) -> bool:
    """Whether a tensor would only have the attribute if the source had marked it with one (``weight.quantized``)."""
    known = {*TENSOR_MEMBERS, "shape", "dtype", "device", "ndim", "data", "grad", "requires_grad", "is_cuda", "T", "mT"}
    return isinstance(value, Tensor) and unwrap(name) not in known and canonical(str(unwrap(name))) not in RULES


@native("builtins.hasattr", raw=True)
def _hasattr(interpreter: Interpreter, value: Value, name: Value) -> Value:
    if _is_no_attribute(value, name):
        return False
    try:
        with interpreter.handling():
            found = interpreter.attribute(value, interpreter.pin(name))
    except RaisedError as raised:
        if raised.name == "AttributeError":
            return False
        raise
    # Operators that a compiled extension registers are taken to be absent, as optional packages are.
    return not (isinstance(found, Opaque) and found.name.startswith("torch.ops."))


@native("builtins.setattr", raw=True)
def _setattr(interpreter: Interpreter, value: Value, name: Value, new: Value) -> Value:
    interpreter.set_attribute(value, interpreter.pin(name), new)


@native("builtins.delattr", raw=True)
def _delattr(interpreter: Interpreter, value: Value, name: Value) -> Value:
    interpreter.delete_attribute(value, interpreter.pin(name))


@native("builtins.len", raw=True)
def _len(interpreter: Interpreter, value: Value) -> Value:
    if isinstance(value, Tensor):
        return value.type.shape[0]
    if isinstance(value, Instance):
        if (method := interpreter.find(value, "__len__")) is not None:
            return interpreter.call(method, [], {})
        raise NotUnderstoodError(f"the length of {describe(value.cls)}")
    if isinstance(value, FieldList | FieldDict) and (held := with_fields("len", value)) is not None:
        return held
    if isinstance(value, Scalar):
        return scalar_operator(interpreter, "len", value)
    if not isinstance(value, list | tuple | dict | str | range):
        raise NotUnderstoodError(f"the length of {describe(value)}")
    return len(value)


def _extreme(name: str) -> None:
    @native(f"builtins.{name}", raw=True)
    def choose(interpreter: Interpreter, *values: Value, key: Value = None, **named: Value) -> Value:
        items = list(values) if len(values) > 1 else interpreter.iterate(values[0])
        if not items:
            if "default" in named:
                return named["default"]
            raise RaisedError("ValueError", f"{name}() of nothing")
        if any(map(is_tensor, items)):
            raise NotUnderstoodError(f"{name}() of tensors")
        if key is not None:
            ordered = interpreter.sorted(items, key=key, reverse=name == "max")
            return ordered[0]
        result = items[0]
        for item in items[1:]:
            result = scalar_operator(interpreter, name, result, item)
        return result


for _name in ("min", "max"):
    _extreme(_name)


@native("builtins.sum", raw=True)
def _sum(interpreter: Interpreter, values: Value, start: Value = 0) -> Value:
    result = start
    for value in interpreter.iterate(values):
        result = binary(interpreter, ast.Add, result, value)
    return result


@native("builtins.abs", raw=True)
def _abs(interpreter: Interpreter, value: Value) -> Value:
    return interpreter.operator("abs", (value,), {}) if is_tensor(value) else scalar_operator(interpreter, "abs", value)


@native("builtins.round", raw=True)
def _round(interpreter: Interpreter, value: Value, digits: Value = None) -> Value:
    if digits is None:
        return scalar_operator(interpreter, "round", value)
    number, places = interpreter.pin(value), interpreter.pin(digits)
    limits.check_call("round", [places])
    return round(number, places)


@native("builtins.pow", raw=True)
def _pow(interpreter: Interpreter, base: Value, exponent: Value) -> Value:
    if is_tensor(base) or is_tensor(exponent):
        return interpreter.operator("pow", (base, exponent), {})
    return scalar_operator(interpreter, "pow", base, exponent)


@native("builtins.divmod", raw=True)
def _divmod(interpreter: Interpreter, a: Value, b: Value) -> Value:
    return scalar_operator(interpreter, "floordiv", a, b), scalar_operator(interpreter, "mod", a, b)


@native("builtins.any", raw=True)
def _any(interpreter: Interpreter, values: Value) -> Value:
    return any(interpreter.truth(each) for each in interpreter.iterate(values))


@native("builtins.all", raw=True)
def _all(interpreter: Interpreter, values: Value) -> Value:
    return all(interpreter.truth(each) for each in interpreter.iterate(values))


@native("builtins.enumerate", raw=True)
def _enumerate(interpreter: Interpreter, values: Value, start: Value = 0) -> Value:
    return list(enumerate(interpreter.iterate(values), unwrap(start)))


@native("builtins.zip", raw=True)
def _zip(interpreter: Interpreter, *values: Value, strict: Value = False) -> Value:
    endless = (itertools.cycle, itertools.count)
    return list(
        zip(*(each if isinstance(each, endless) else interpreter.iterate(each) for each in values), strict=False)
    )


@native("builtins.map", raw=True)
def _map(interpreter: Interpreter, function: Value, *values: Value) -> Value:
    return [interpreter.call(function, list(each), {}) for each in zip(*map(interpreter.iterate, values), strict=False)]


@native("builtins.filter", raw=True)
def _filter(interpreter: Interpreter, function: Value, values: Value) -> Value:
    return [each for each in interpreter.iterate(values) if interpreter.truth(interpreter.call(function, [each], {}))]


@native("builtins.sorted", raw=True)
def _sorted(interpreter: Interpreter, values: Value, key: Value = None, reverse: Value = False) -> Value:
    return interpreter.sorted(interpreter.iterate(values), key, reverse)


@native("builtins.reversed", raw=True)
def _reversed(interpreter: Interpreter, values: Value) -> Value:
    return interpreter.iterate(values)[::-1]


@native("builtins.iter", raw=True)
def _iter(interpreter: Interpreter, values: Value) -> Value:
    return values if hasattr(values, "__next__") else iter(interpreter.iterate(values))


@native("builtins.next", raw=True)
def _next(interpreter: Interpreter, values: Value, *default: Value) -> Value:
    iterator = values if hasattr(values, "__next__") else iter(interpreter.iterate(values))
    for each in iterator:
        return each
    if default:
        return default[0]
    raise RaisedError("StopIteration")


@native("builtins.id", raw=True)
def _id(interpreter: Interpreter, value: Value) -> Value:
    return id(value)


@native("builtins.vars", raw=True)
def _vars(interpreter: Interpreter, value: Value) -> Value:
    return interpreter.attribute(value, "__dict__")


@native("builtins.repr", raw=True)
def _repr(interpreter: Interpreter, value: Value) -> Value:
    return repr(plain(value))


@native("builtins.print", lazy=True)
def _print(interpreter: Interpreter, *args: Value, **kwargs: Value) -> Value:
    return None


@native("builtins.super")
def _super(interpreter: Interpreter, *args: Value) -> Value:
    raise NotUnderstoodError("super in a place where the analysis does not expect it")


@native("builtins.locals")
def _locals(interpreter: Interpreter, *args: Value) -> Value:
    raise NotUnderstoodError("locals in a place where the analysis does not expect it")


@native("builtins.property", "functools.cached_property")
def _property(interpreter: Interpreter, function: Value) -> Value:
    return _as_kind(function, "property")


@native("builtins.staticmethod")
def _staticmethod(interpreter: Interpreter, function: Value) -> Value:
    return _as_kind(function, "staticmethod")


@native("builtins.classmethod")
def _classmethod(interpreter: Interpreter, function: Value) -> Value:
    return _as_kind(function, "classmethod")


def _as_kind(function: Value, kind: str) -> Value:
    if isinstance(function, Function):
        function.kind = kind
    return function
