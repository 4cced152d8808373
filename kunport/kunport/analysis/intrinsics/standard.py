"""Python's standard library, as far as model source uses it."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kunport_codegen.expression import OPERATORS

from kunport.analysis.interpreter import limits
from kunport.analysis.interpreter.operations import BINARY, binary, is_tensor, plain, scalar_operator, unary
from kunport.analysis.interpreter.signals import NotUnderstoodError, RaisedError
from kunport.analysis.intrinsics.registry import NAMES, PACKAGES, member, native, native_class
from kunport.analysis.values import (
    Bound,
    FieldDict,
    FieldList,
    Instance,
    Native,
    NativeClass,
    Opaque,
    OrderedSet,
    Partial,
    Tensor,
    Value,
)

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

for _name in ("pi", "e", "inf", "nan", "tau"):
    NAMES[f"math.{_name}"] = NAMES[f"numpy.{_name}"] = getattr(math, _name)
NAMES["torch.pi"], NAMES["torch.inf"] = math.pi, math.inf
NAMES["typing.TYPE_CHECKING"] = False
NAMES["sys.version_info"] = (3, 11, 0)


def _mathematics(name: str) -> None:
    @native(f"math.{name}", f"numpy.{name}", raw=True)
    def call(interpreter: Interpreter, *args: Value) -> Value:
        if any(map(is_tensor, args)):
            raise NotUnderstoodError(f"math.{name} of a tensor")
        if name == "log" and len(args) == 2:
            logarithms = [scalar_operator(interpreter, "log", each) for each in args]
            return scalar_operator(interpreter, "div", *logarithms)
        if name in OPERATORS:
            return scalar_operator(interpreter, name, *args)
        plain = [interpreter.pin(each) for each in args]
        limits.check_mathematics(name, plain)
        return getattr(math, name)(*plain)


for _name in dir(math):
    if callable(getattr(math, _name)) and not _name.startswith("_"):
        _mathematics(_name)


def _infix(special: str, operator: type[ast.operator]) -> None:
    @native(f"operator.{special}", f"operator.__{special}__", raw=True)
    def call(interpreter: Interpreter, left: Value, right: Value) -> Value:
        return binary(interpreter, operator, left, right)


for _operator, (_, _, _special) in BINARY.items():
    _infix(f"{_special}_" if _special in ("and", "or") else _special, _operator)


@native("operator.neg", raw=True)
def _negated(interpreter: Interpreter, value: Value) -> Value:
    return unary(interpreter, ast.USub, value)


@native("operator.attrgetter", raw=True)
def _attrgetter(interpreter: Interpreter, path: Value) -> Value:
    def get(inner: Interpreter, value: Value) -> Value:
        for name in path.split("."):
            value = inner.attribute(value, name)
        return value

    return Native("operator.attrgetter", get, raw=True)


@native("operator.itemgetter", raw=True)
def _itemgetter(interpreter: Interpreter, *keys: Value) -> Value:
    def get(inner: Interpreter, value: Value) -> Value:
        found = tuple(inner.item(value, key) for key in keys)
        return found if len(found) > 1 else found[0]

    return Native("operator.itemgetter", get, raw=True)


@native("functools.partial", raw=True)
def _partial(interpreter: Interpreter, function: Value, *args: Value, **kwargs: Value) -> Value:
    return Partial(function, args, kwargs)


@native("functools.reduce", raw=True)
def _reduce(interpreter: Interpreter, function: Value, values: Value, *start: Value) -> Value:
    items = [*start, *interpreter.iterate(values)]
    result = items[0]
    for item in items[1:]:
        result = interpreter.call(function, [result, item], {})
    return result


@native("copy.copy", raw=True)
def _copy(interpreter: Interpreter, value: Value) -> Value:
    if isinstance(value, Instance):
        return Instance(value.cls, dict(value.attributes), _shallow(value.items), renamed=value.renamed)
    return _shallow(value)


def _shallow(value: Value) -> Value:
    if isinstance(value, FieldList | FieldDict):
        copied = type(value)(value)
        copied.path = value.path
        return copied
    return type(value)(value) if isinstance(value, list | dict) else value


@native("copy.deepcopy", raw=True)
def _deepcopy(interpreter: Interpreter, value: Value) -> Value:
    return _deep(interpreter, value, {})


def _deep(interpreter: Interpreter, value: Value, seen: dict[int, Value]) -> Value:
    """A copy in which objects, containers and tensors are new, each once."""
    if id(value) in seen:
        return seen[id(value)]
    if isinstance(value, Instance):
        copied = seen[id(value)] = Instance(value.cls, renamed=value.renamed)
        copied.attributes = {key: _deep(interpreter, each, seen) for key, each in value.attributes.items()}
        copied.items = None if value.items is None else _deep(interpreter, value.items, seen)
        return copied
    if isinstance(value, Tensor):
        # A parameter's copy is a parameter of its own.
        state = value.state
        copy = Tensor(value.id, value.type) if state is None else interpreter.state(value.type, buffer=state.buffer)
        if state is not None and state.initial is not None:
            copy = Tensor(value.id, value.type, replace(state, path=""))
        seen[id(value)] = copy
        return copy
    if isinstance(value, FieldDict | dict) and not isinstance(value, OrderedSet):
        held = _shallow(value)
        held.update({key: _deep(interpreter, each, seen) for key, each in value.items()})
        return held
    if isinstance(value, list):
        held = _shallow(value)
        held[:] = [_deep(interpreter, each, seen) for each in value]
        return held
    return tuple(_deep(interpreter, each, seen) for each in value) if isinstance(value, tuple) else value


def _iterators(name: str) -> None:
    @native(f"itertools.{name}", raw=True)
    def call(interpreter: Interpreter, *args: Value, **kwargs: Value) -> Value:
        values = [interpreter.iterate(each) if isinstance(each, list | tuple | Instance) else each for each in args]
        found = getattr(itertools, name)(*values, **{key: plain(each) for key, each in kwargs.items()})
        items = list(itertools.islice(found, limits.ITEMS + 1))
        interpreter.spend(limits.count(items))
        return items


for _name in ("chain", "product", "accumulate", "repeat", "pairwise", "zip_longest", "islice", "combinations"):
    _iterators(_name)


@native("itertools.cycle", raw=True)
def _cycle(interpreter: Interpreter, values: Value) -> Value:
    return itertools.cycle(interpreter.iterate(values))


@native("itertools.count", raw=True)
def _count(interpreter: Interpreter, start: Value = 0, step: Value = 1) -> Value:
    return itertools.count(interpreter.pin(start), interpreter.pin(step))


@native("itertools.chain.from_iterable", raw=True)
def _from_iterable(interpreter: Interpreter, values: Value) -> Value:
    return [each for inner in interpreter.iterate(values) for each in interpreter.iterate(inner)]


# Dictionaries that source derives classes from.
ordered_dict = native_class("collections.OrderedDict")
NAMES["collections.UserDict"] = ordered_dict


@member(ordered_dict, "__init__", raw=True)
def _dict_init(interpreter: Interpreter, this: Instance, values: Value = (), **named: Value) -> None:
    this.items = {**interpreter.mapping(values), **named}


@member(ordered_dict, "__getitem__", raw=True)
def _dict_get(interpreter: Interpreter, this: Instance, key: Value) -> Value:
    return interpreter.item(this.items, key)


@member(ordered_dict, "__setitem__", raw=True)
def _dict_set(interpreter: Interpreter, this: Instance, key: Value, value: Value) -> None:
    interpreter.set_item(this.items, key, value)


@member(ordered_dict, "__contains__", raw=True)
def _dict_contains(interpreter: Interpreter, this: Instance, key: Value) -> Value:
    return interpreter.pin(key) in (this.items or ())


@member(ordered_dict, "__iter__")
def _dict_iter(interpreter: Interpreter, this: Instance) -> Value:
    return list(this.items or ())


@member(ordered_dict, "__len__")
def _dict_len(interpreter: Interpreter, this: Instance) -> Value:
    return len(this.items or ())


for _name in ("keys", "values", "items", "get", "pop", "update", "setdefault"):

    def _method(interpreter: Interpreter, this: Instance, *args: Value, _name: str = _name) -> Any:
        return interpreter.call(interpreter.attribute(this.items, _name), list(args), {})

    ordered_dict.members[_name] = Native(f"collections.OrderedDict.{_name}", _method, raw=True)


class _DefaultDict(dict[Value, Value]):
    """A dictionary that makes what it lacks."""

    def __init__(self, values: Value = (), make: Callable[[], Value] | None = None) -> None:
        super().__init__(values)
        self._make = make

    def __missing__(self, key: Value) -> Value:
        if self._make is None:
            raise KeyError(key)
        return self.setdefault(key, self._make())


@native("collections.defaultdict", raw=True)
def _defaultdict(interpreter: Interpreter, factory: Value = None, *args: Value) -> Value:
    make = None if factory is None else lambda: interpreter.call(factory, [], {})
    return _DefaultDict(interpreter.mapping(args[0]) if args else (), make)


_logger_class = NativeClass("logging.Logger")
for _name in ("warning", "info", "debug", "error", "critical", "exception", "log", "warning_once", "info_once"):
    _logger_class.members[_name] = Native(f"logging.Logger.{_name}", lambda *args, **kwargs: None, lazy=True)
_logger = Instance(_logger_class)
for _name in ("logging.getLogger", "transformers.utils.logging.get_logger"):
    NAMES[_name] = Native(_name, lambda interpreter, *args, **kwargs: _logger, raw=True)
for _name in ("warn", "simplefilter", "filterwarnings", "warn_explicit"):
    NAMES[f"warnings.{_name}"] = Native(f"warnings.{_name}", lambda *args, **kwargs: None, lazy=True)


@native("importlib.import_module")
def _import_module(interpreter: Interpreter, name: Value, package: Value = None) -> Value:
    """Only what is read as source can be imported: optional packages are taken to be absent."""
    found = interpreter.names.resolve(name, None)
    if isinstance(found, Opaque):
        raise RaisedError("ModuleNotFoundError", f"No module named {name}")
    return found


@native("importlib.util.find_spec", "importlib.find_loader", "pkgutil.find_loader")
def _find_spec(interpreter: Interpreter, name: Value, package: Value = None) -> Value:
    found = interpreter.names.resolve(name, None)
    absent = isinstance(found, Opaque) and name.partition(".")[0] not in PACKAGES
    return None if absent else found


@native("importlib.metadata.version", "importlib_metadata.version", "pkg_resources.get_distribution")
def _version(interpreter: Interpreter, name: Value) -> Value:
    raise RaisedError("PackageNotFoundError", f"No package metadata was found for {name}")


@native("os.environ.get", "os.getenv")
def _environment(interpreter: Interpreter, name: Value, default: Value = None) -> Value:
    return default


@native("contextlib.nullcontext", "contextlib.suppress")
def _no_context(interpreter: Interpreter, *args: Value) -> Value:
    return None


@native("typing.cast", raw=True)
def _cast(interpreter: Interpreter, kind: Value, value: Value) -> Value:
    return value


@native("dataclasses.field", raw=True)
def _field(interpreter: Interpreter, default: Value = None, default_factory: Value = None, **options: Value) -> Value:
    return Instance(_field_class, {"default": default, "default_factory": default_factory})


_field_class = NativeClass("dataclasses.Field")
for _name in ("typing.Generic", "typing.Protocol", "abc.ABC"):
    native_class(_name)


@native("types.MethodType", raw=True)
def _method_type(interpreter: Interpreter, function: Value, receiver: Value) -> Value:
    return Bound(receiver, function)
