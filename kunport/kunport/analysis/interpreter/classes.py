"""Classes: their statements, their members and their instances."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kunport.analysis.interpreter import attributes, calls, enums, operations
from kunport.analysis.interpreter.expressions import evaluate
from kunport.analysis.interpreter.scope import Scope
from kunport.analysis.interpreter.signals import NotUnderstoodError, RaisedError
from kunport.analysis.values import (
    Class,
    Function,
    Instance,
    Native,
    NativeClass,
    Opaque,
    SourceClass,
    Value,
    linearize,
)

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter


# Classes whose subclasses are made of their annotated members, as dataclasses are.
_RECORDS = ("typing.NamedTuple", "pydantic.BaseModel", "pydantic_settings.BaseSettings", "msgspec.Struct")

# Members of a metaclass that decide what calling its classes gives, and those that make the class.
_DECIDING = ("__call__", "__getattribute__", "__getattr__", "__prepare__", "__instancecheck__")
_MAKING = ("__new__", "__init__")


def define_class(interpreter: Interpreter, node: ast.ClassDef, scope: Scope) -> Value:
    """The value of a ``class`` statement. Its body waits until members are asked for."""
    where = interpreter.trace.where
    bases: list[Class] = []
    for each in node.bases:
        base = evaluate(interpreter, each, scope)
        if isinstance(base, Opaque):
            base = NativeClass(base.name, reason=base.reason)
        if not isinstance(base, SourceClass | NativeClass):
            base = NativeClass(operations.describe(base), reason="no class that the analysis knows")
        bases.append(base)
    for keyword in node.keywords:
        kind = evaluate(interpreter, keyword.value, scope) if keyword.arg == "metaclass" else None
        if isinstance(kind, SourceClass) and (changed := _changing(kind)):
            return Opaque(node.name, f"made by the metaclass {kind.name}, which has a {changed} of its own")
    cls = SourceClass(node.name, node, scope, tuple(bases))
    try:
        cls.mro = linearize(cls, cls.bases)
    except TypeError as error:
        raise NotUnderstoodError(str(error)) from None
    cls.record = any(base.name in _RECORDS for base in cls.mro)
    for name, statement in _members(node.body):
        cls.members.setdefault(name, []).append(statement)
    changer = attributes.class_member(interpreter, cls.mro[1:], "__init_subclass__")
    if isinstance(changer, Function) and changer.scope.namespace.custom:
        interpreter.call(changer, [cls], _options(interpreter, node, scope))
    value = calls.decorate(interpreter, cls, node.decorator_list, scope)
    interpreter.trace.where = where
    return value


def _options(interpreter: Interpreter, node: ast.ClassDef, scope: Scope) -> dict[str, Value]:
    """The keywords in a class's head that are for ``__init_subclass__``."""
    named = [(each.arg, each.value) for each in node.keywords if each.arg is not None and each.arg != "metaclass"]
    return {name: evaluate(interpreter, value, scope) for name, value in named}


def _changing(metaclass: SourceClass) -> str | None:
    """The member by which a metaclass may change what its classes are; one that only writes them down does not."""
    for ancestor in metaclass.mro:
        members = ancestor.members if isinstance(ancestor, SourceClass) else {}
        for name in (*_DECIDING, *_MAKING):
            if name in members and (name in _DECIDING or any(map(_writes, members[name]))):
                return name
    return None


def _writes(statement: ast.stmt) -> bool:
    """Whether a method sets attributes, or entries of what it was given."""
    given = {each.arg for each in ast.walk(statement) if isinstance(each, ast.arg)}
    for each in ast.walk(statement):
        match each:
            case ast.Attribute(ctx=ast.Store()) | ast.Call(func=ast.Name(id="setattr")):
                return True
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()) if name in given:
                return True
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name))) if name in given:
                return True
            case ast.Return(value=ast.Constant() | ast.Lambda()):
                return True
    return False


def _members(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """(name, statement that binds it) for the members of a class body."""
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, statement
            case ast.Assign(targets=targets):
                for target in targets:
                    names = target.elts if isinstance(target, ast.Tuple) else [target]
                    yield from ((each.id, statement) for each in names if isinstance(each, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
                yield name, statement
            case ast.If() | ast.Try():
                yield from ((name, statement) for name, _ in _members(statement.body))


def own_member(interpreter: Interpreter, cls: SourceClass, name: str) -> Value:
    """A member of the class itself, evaluated on first use."""
    if name not in cls.namespace:
        scope = Scope(cls.scope.namespace, cls.scope, variables=cls.namespace, cls=cls)
        where = interpreter.trace.where
        for statement in cls.members[name]:
            if isinstance(statement, ast.FunctionDef):
                cls.namespace[name] = calls.make_function(interpreter, statement, scope, cls)
                continue
            try:
                interpreter.execute(statement, scope)
            except NotUnderstoodError as problem:
                cls.namespace[name] = Opaque(f"{cls.name}.{name}", f"not understood ({problem})")
        interpreter.trace.where = where
        if name not in cls.namespace:
            raise NotUnderstoodError(f"{cls.name} defines {name} in a way that is not followed")
        if enums.is_enumeration(cls):
            cls.namespace[name] = enums.member(interpreter, cls, name, cls.namespace[name])
    return cls.namespace[name]


def instantiate(interpreter: Interpreter, cls: Class, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``cls(*args, **kwargs)``."""
    if enums.is_enumeration(cls):
        if len(args) != 1 or kwargs:
            raise NotUnderstoodError(f"{cls.name} called with {len(args)} values")
        return enums.by_value(interpreter, cls, args[0])
    maker = attributes.class_member(interpreter, cls.mro, "__new__")
    if isinstance(maker, Native):
        return calls.call(interpreter, maker, [cls, *args], kwargs)
    if isinstance(cls, NativeClass) and cls.reason:
        return calls.call(interpreter, Opaque(cls.name, cls.reason), args, kwargs)
    floats = tuple(value for value in (*args, *kwargs.values()) if type(value) is float)
    instance = Instance(cls, where=interpreter.trace.where, floats=floats)
    interpreter.replay.made(instance)
    for ancestor in cls.mro:
        if isinstance(ancestor, SourceClass) and ancestor.record and "__init__" not in ancestor.members:
            _fill_record(interpreter, instance, ancestor, args, kwargs)
            break
        initializer = attributes.class_member(interpreter, [ancestor], "__init__")
        if initializer is not attributes.MISSING:
            calls.call(interpreter, initializer, [instance, *args], kwargs)
            break
    return instance


def _fill_record(
    interpreter: Interpreter, instance: Instance, cls: SourceClass, args: list[Value], kwargs: dict[str, Value]
) -> None:
    """What the constructor of the dataclass ``cls`` does to an instance of it or of a class derived from it."""
    names = record_fields(cls)
    values = dict(zip(names, args, strict=False)) | kwargs
    if unexpected := set(values) - set(names):
        raise RaisedError("TypeError", f"{cls.name} has no field {', '.join(sorted(unexpected))}")
    for name in names:
        if name not in values:
            default = attributes.class_member(interpreter, cls.mro, name)
            if default is attributes.MISSING:
                raise RaisedError("TypeError", f"{cls.name} needs {name}")
            values[name] = field_default(interpreter, default)
        instance.attributes[name] = values[name]
    if (after := interpreter.find(instance, "__post_init__")) is not None:
        calls.call(interpreter, after, [], {})


def record_fields(cls: SourceClass) -> list[str]:
    """Names of a dataclass's fields, those of its bases first."""
    names: dict[str, None] = {}
    for ancestor in reversed(cls.mro):
        if isinstance(ancestor, SourceClass):
            for statement in ancestor.node.body:
                match statement:
                    case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                        if "ClassVar" not in ast.dump(annotation):
                            names.setdefault(name)
    return list(names)


def field_default(interpreter: Interpreter, default: Value) -> Value:
    """The value of a dataclass field's default, made anew where there is a factory."""
    if isinstance(default, Instance) and "default_factory" in default.attributes:
        factory = default.attributes["default_factory"]
        return interpreter.call(factory, [], {}) if factory is not None else default.attributes["default"]
    return default
