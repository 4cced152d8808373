"""Methods and items of Python's own values: strings, lists, tuples, dictionaries, sets and numbers."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from kunport_codegen.expression import Scalar, apply, field, unwrap

from kunport.analysis.interpreter import enums, limits, operations
from kunport.analysis.interpreter.signals import NotUnderstoodError, RaisedError
from kunport.analysis.values import FieldDict, FieldList, Instance, Native, OrderedSet, Span, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

_KINDS = (str, dict, list, tuple, OrderedSet, int, float, slice)
# Methods whose first argument is looked up in the container, and therefore plain.
_KEYED = {"get", "pop", "setdefault", "add", "discard", "remove", "index", "count"}
_ERRORS = (AttributeError, KeyError, IndexError, ValueError, TypeError)


def has_method(value: Value, name: str) -> bool:
    return isinstance(value, _KINDS) and (hasattr(type(value), name) or (isinstance(value, tuple) and name == "numel"))


def method(value: Value, name: str) -> Value:
    """A method, or a data attribute such as ``slice.start``, of a plain value."""
    bare = unwrap(value)
    if isinstance(bare, slice) or not callable(getattr(bare, name, len)):
        return getattr(bare, name)

    def call(interpreter: Interpreter, *args: Value, **kwargs: Value) -> Value:
        try:
            return _run(interpreter, value, name, list(args), kwargs)
        except _ERRORS as error:
            raise RaisedError(type(error).__name__, str(error)) from None

    return Native(f"{type(bare).__name__}.{name}", call, raw=True)


def _run(interpreter: Interpreter, value: Value, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    bare = unwrap(value)
    if isinstance(bare, tuple) and name == "numel":
        return product(bare)
    if isinstance(bare, str | int | float):
        plain = [operations.plain(interpreter.pin(each)) for each in args]
        named = {key: interpreter.pin(each) for key, each in kwargs.items()}
        limits.check_call(name, [*plain, *named.values(), *([bare] if name == "format" else [])])
        if name == "join":
            plain = [[str(interpreter.pin(each)) for each in interpreter.iterate(args[0])]]
        return getattr(interpreter.pin(value), name)(*plain, **named)
    if name in _KEYED and args:
        args[0] = interpreter.pin(args[0])
    if isinstance(bare, list | tuple) and name in ("index", "count", "remove"):
        bare = bare if name == "remove" else [interpreter.pin(each) for each in bare]
    if name in ("extend", "update", "union") and args:
        args = [interpreter.mapping(each) if isinstance(bare, dict) else interpreter.iterate(each) for each in args]
    if name == "sort":
        bare[:] = interpreter.sorted(bare, **kwargs)
        return None
    result = getattr(bare, name)(*args, **kwargs)
    return list(result) if name in ("keys", "values", "items") else result


def product(sizes: tuple[Value, ...]) -> Value:
    result: Value = 1
    for size in sizes:
        result = apply("mul", result, size)
    return result


def item(interpreter: Interpreter, value: Value, key: Value) -> Value:
    """``value[key]``.

    Raises:
        RaisedError: there is no such item.
        NotUnderstoodError: the value has no items that the analysis knows.
    """
    if operations.is_tensor(value):
        return interpreter.operator("getitem", (value, key), {})
    if isinstance(value, Instance):
        if (getter := interpreter.find(value, "__getitem__")) is not None:
            return interpreter.call(getter, [key], {})
        raise NotUnderstoodError(f"an item of {operations.describe(value.cls)}")
    if isinstance(value, list | tuple | dict | str | range):
        try:
            return value[_key(interpreter, value, key)]
        except _ERRORS as error:
            raise RaisedError(type(error).__name__, str(error)) from None
    if isinstance(value, Scalar) and isinstance(value.value, str):
        return item(interpreter, interpreter.pin(value), key)
    if enums.is_enumeration(value):
        return enums.by_name(interpreter, value, key)
    if interpreter.is_type(value):
        return value  # a generic type such as ``tuple[int]``
    raise NotUnderstoodError(f"an item of {operations.describe(value)}")


def _key(interpreter: Interpreter, value: Value, key: Value) -> Value:
    """Slices of sequences follow the configuration without being decisions: ``layers[: config.num_hidden_layers]``."""
    if isinstance(key, slice):
        bounds = (key.start, key.stop, key.step)
        for bound in bounds:
            if isinstance(bound, Scalar):
                operations.refuse_turns(bound)
        return slice(*map(unwrap, bounds))
    if isinstance(key, tuple):
        return tuple(interpreter.pin(each) for each in key)
    if operations.is_tensor(key):
        raise NotUnderstoodError("a Python container indexed by a tensor")
    return interpreter.pin(key)


def set_item(interpreter: Interpreter, value: Value, key: Value, new: Value) -> None:
    if operations.is_tensor(value):
        interpreter.write_item(value, key, new)
    elif isinstance(value, Instance) and (setter := interpreter.find(value, "__setitem__")) is not None:
        interpreter.call(setter, [key, new], {})
    elif isinstance(value, list | dict):
        try:
            value[_key(interpreter, value, key)] = new
        except _ERRORS as error:
            raise RaisedError(type(error).__name__, str(error)) from None
    else:
        raise NotUnderstoodError(f"setting an item of {operations.describe(value)}")


def delete_item(interpreter: Interpreter, value: Value, key: Value) -> None:
    if not isinstance(value, list | dict):
        raise NotUnderstoodError(f"deleting an item of {operations.describe(value)}")
    try:
        del value[_key(interpreter, value, key)]
    except _ERRORS as error:
        raise RaisedError(type(error).__name__, str(error)) from None


def iterate(interpreter: Interpreter, value: Value) -> list[Value]:
    """The items that a loop over the value meets.

    Raises:
        NotUnderstoodError: they are not known.
    """
    if isinstance(value, list | tuple | range | OrderedSet | str | dict):
        interpreter.spend(limits.count(value))
        return list(value)
    if isinstance(value, Scalar) and isinstance(value.value, str):
        return list(interpreter.pin(value))
    if isinstance(value, Span):
        bounds = ", ".join(str(getattr(bound, "expr", bound)) for bound in value.bounds)
        interpreter.spend(limits.count(value.numbers))
        interpreter.trace.note(
            f"{interpreter.trace.where}: a loop over range({bounds}) was unrolled {len(value.numbers)} times"
        )
        return list(value.numbers)
    if operations.is_tensor(value):
        return interpreter.rows(value)
    if isinstance(value, Instance):
        if (method := interpreter.find(value, "__iter__")) is not None:
            return iterate(interpreter, interpreter.call(method, [], {}))
        if (length := interpreter.find(value, "__len__")) is not None and interpreter.find(
            value, "__getitem__"
        ) is not None:
            return [item(interpreter, value, index) for index in range(unwrap(interpreter.call(length, [], {})))]
        raise NotUnderstoodError(f"a loop over {operations.describe(value.cls)}")
    if enums.is_enumeration(value):
        return list(enums.members(interpreter, value))
    if hasattr(value, "__next__") and not isinstance(value, itertools.cycle | itertools.count):
        return list(value)
    raise NotUnderstoodError(f"a loop over {operations.describe(value)}")


def mapping(interpreter: Interpreter, value: Value) -> dict[Value, Value]:
    """A dictionary's items, for ``**`` and ``update``."""
    if isinstance(value, dict) and not isinstance(value, OrderedSet):
        return value
    if isinstance(value, Instance) and isinstance(value.items, dict):
        return value.items
    if isinstance(value, Instance) and (keys := interpreter.find(value, "keys")) is not None:
        return {key: item(interpreter, value, key) for key in iterate(interpreter, interpreter.call(keys, [], {}))}
    if isinstance(value, list | tuple):
        pairs = [iterate(interpreter, pair) for pair in value]
        if any(len(pair) != 2 for pair in pairs):
            raise RaisedError("ValueError", "a dictionary is made of pairs")
        return {interpreter.pin(key): each for key, each in pairs}
    raise NotUnderstoodError(f"{operations.describe(value)} used as a dictionary")


def lift(value: Any, path: str) -> Value:
    """A plain value of the configuration as values that remember their path."""
    if isinstance(value, dict):
        fields = FieldDict((key, lift(each, f"{path}[{key!r}]")) for key, each in value.items())
        fields.path = path
        return fields
    if isinstance(value, list | tuple):
        items = FieldList(lift(each, f"{path}[{position}]") for position, each in enumerate(value))
        items.path = path
        return items
    if isinstance(value, int | float | str | None):
        return field(path, value)
    return value
