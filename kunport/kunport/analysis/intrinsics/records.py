"""Tuples with named items, and other classes whose annotated members are their fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kunport_codegen.expression import unwrap

from kunport.analysis.interpreter.signals import NotUnderstoodError, RaisedError
from kunport.analysis.intrinsics.registry import NAMES, member, native, native_class
from kunport.analysis.values import Instance, Native, NativeClass, SourceClass, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

named_tuple = native_class("typing.NamedTuple")
NAMES["typing_extensions.NamedTuple"] = named_tuple
for _name in ("pydantic.BaseModel", "pydantic.main.BaseModel", "pydantic_settings.BaseSettings", "msgspec.Struct"):
    native_class(_name)


@member(named_tuple, "__getitem__", raw=True)
def _item(interpreter: Interpreter, this: Instance, key: Value) -> Value:
    return interpreter.item(tuple(this.attributes.values()), key)


@member(named_tuple, "__iter__", raw=True)
def _items(interpreter: Interpreter, this: Instance) -> Value:
    return list(this.attributes.values())


@member(named_tuple, "__len__", raw=True)
def _length(interpreter: Interpreter, this: Instance) -> Value:
    return len(this.attributes)


@member(named_tuple, "_asdict", raw=True)
def _asdict(interpreter: Interpreter, this: Instance) -> Value:
    return dict(this.attributes)


@native("dataclasses.replace", "copy.replace", raw=True)
@member(named_tuple, "_replace", raw=True)
def _replace(interpreter: Interpreter, this: Instance, **changes: Value) -> Value:
    return Instance(this.cls, {**this.attributes, **changes}, renamed=this.renamed)


@native("dataclasses.asdict", "dataclasses.astuple", raw=True)
def _as_dictionary(interpreter: Interpreter, this: Instance, **options: Value) -> Value:
    return dict(this.attributes)


@native("dataclasses.fields", raw=True)
def _fields(interpreter: Interpreter, this: Value) -> Value:
    from kunport.analysis.interpreter.classes import record_fields

    cls = this.cls if isinstance(this, Instance) else this
    if not isinstance(cls, SourceClass):
        raise NotUnderstoodError("the fields of what is no dataclass of the source")
    return [Instance(_field_class, {"name": name}) for name in record_fields(cls)]


_field_class = NativeClass("dataclasses.Field")


@native("dataclasses.is_dataclass", raw=True)
def _is_dataclass(interpreter: Interpreter, value: Value) -> Value:
    cls = value.cls if isinstance(value, Instance) else value
    return any(getattr(each, "record", False) for each in getattr(cls, "mro", ()))


@native("collections.namedtuple")
def _namedtuple(interpreter: Interpreter, name: Value, fields: Value, defaults: Value = (), **options: Value) -> Value:
    names = fields.replace(",", " ").split() if isinstance(fields, str) else [*map(unwrap, fields)]
    given = dict(zip(names[len(names) - len(defaults or ()) :], defaults or (), strict=True))

    def make(inner: Interpreter, cls: Value, *args: Value, **named: Value) -> Value:
        values = {**given, **dict(zip(names, args, strict=False)), **named}
        if set(values) != set(names):
            raise RaisedError("TypeError", f"{name} takes {', '.join(names)}")
        return Instance(cls, {each: values[each] for each in names})

    made = NativeClass(f"{name}", (named_tuple,))
    made.members["__new__"] = Native(f"{name}.__new__", make, raw=True)
    made.members["_fields"] = tuple(names)
    return made
