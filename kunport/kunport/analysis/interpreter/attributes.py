"""Attributes and items of abstract values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import DType

from kunport.analysis.interpreter import containers
from kunport.analysis.interpreter.operations import describe, is_tensor
from kunport.analysis.interpreter.signals import NotUnderstoodError, RaisedError
from kunport.analysis.intrinsics.registry import external
from kunport.analysis.values import (
    Bound,
    Class,
    Device,
    Function,
    Instance,
    Native,
    NativeClass,
    Opaque,
    Partial,
    PythonModule,
    SourceClass,
    Super,
    Value,
)

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

MISSING = object()


def class_member(interpreter: Interpreter, classes: list[Class], name: str) -> Value:
    """The first member of that name along a resolution order, `MISSING` without one."""
    for cls in classes:
        if isinstance(cls, SourceClass):
            if name in cls.namespace or name in cls.members:
                return interpreter.own_member(cls, name)
        elif name in cls.members:
            return cls.members[name]
    return MISSING


def bind(interpreter: Interpreter, member: Value, receiver: Value) -> Value:
    """A class member as it is seen through an instance or, for class methods, the class."""
    if isinstance(member, Function):
        if member.kind == "property":
            return interpreter.call(member, [receiver], {})
        if member.kind == "staticmethod":
            return member
        if member.kind == "classmethod":
            return Bound(receiver.cls if isinstance(receiver, Instance) else receiver, member)
        return Bound(receiver, member)
    return Bound(receiver, member) if isinstance(member, Native) else member


def get(interpreter: Interpreter, value: Value, name: str) -> Value:
    """``value.name``.

    Raises:
        RaisedError: there is no such attribute (AttributeError).
        NotUnderstoodError: whether there is one is not known.
    """
    if isinstance(value, Instance):
        return _of_instance(interpreter, value, name)
    if is_tensor(value):
        return interpreter.tensor_attribute(value, name)
    if isinstance(value, SourceClass | NativeClass):
        return _of_class(interpreter, value, name)
    if isinstance(value, PythonModule):
        return interpreter.names.resolve(value.namespace.dotted, name)
    if isinstance(value, Opaque):
        dotted = f"{value.name}.{name}"
        if (found := interpreter.names.external(dotted)) is not None:
            return found
        module = interpreter.names.namespace(dotted)
        return Opaque(dotted, value.reason) if module is None else PythonModule(module)
    if isinstance(value, Super):
        return _of_super(interpreter, value, name)
    if isinstance(value, Function | Native):
        return _of_function(value, name)
    if isinstance(value, Partial):
        held = {"func": value.function, "args": value.args, "keywords": value.kwargs}
        if name not in held:
            raise NotUnderstoodError(f"{name} of a partial function")
        return held[name]
    if isinstance(value, Bound):
        return value.receiver if name == "__self__" else get(interpreter, value.function, name)
    if isinstance(value, DType):
        return interpreter.dtype_attribute(value, name)
    if isinstance(value, Device):
        if name in ("type", "index"):
            return getattr(value, name)
    elif containers.has_method(unwrap(value), name):
        return containers.method(value, name)
    raise RaisedError("AttributeError", f"{describe(value)} has no attribute {name}")


def _of_instance(interpreter: Interpreter, value: Instance, name: str) -> Value:
    if value.renamed:
        name = value.renamed.get(name, name)
    interpreter.replay.read(value, name)
    if name in value.attributes:
        return value.attributes[name]
    found = class_member(interpreter, value.cls.mro, name)
    if found is not MISSING:
        return bind(interpreter, found, value)
    if name == "__class__":
        return value.cls
    if name == "__dict__":
        return value.attributes
    getter = class_member(interpreter, value.cls.mro, "__getattr__")
    if getter is not MISSING:
        return interpreter.call(bind(interpreter, getter, value), [name], {})
    if value.partial:
        raise NotUnderstoodError(
            f"{describe(value.cls)} was only built in part ({value.partial}), so that .{name} is not known"
        )
    if reason := unread_ancestor(value.cls):
        raise NotUnderstoodError(f"the attribute {name} may come from {reason}")
    raise RaisedError("AttributeError", f"{value.cls.short} has no attribute {name}")


def unread_ancestor(cls: Class) -> str:
    """A class among its ancestors whose members are not known, and why; "" without one."""
    for ancestor in cls.mro:
        if isinstance(ancestor, NativeClass) and ancestor.reason:
            return f"{ancestor.name}, which is {ancestor.reason}"
    return ""


def _of_class(interpreter: Interpreter, value: Class, name: str) -> Value:
    if name in ("__name__", "__qualname__"):
        return value.short
    if name == "__mro__":
        return tuple(value.mro)
    found = class_member(interpreter, value.mro, name)
    if found is MISSING:
        if name == "__dict__":
            return value.namespace if isinstance(value, SourceClass) else value.members
        if isinstance(value, NativeClass) and (inner := external(f"{value.name}.{name}")) is not None:
            return inner
        if reason := unread_ancestor(value):
            raise NotUnderstoodError(f"the attribute {name} may come from {reason}")
        raise RaisedError("AttributeError", f"{value.name} has no attribute {name}")
    if isinstance(found, Function) and found.kind == "classmethod":
        return Bound(value, found)
    if isinstance(found, Native) and found.classmethod:
        return Bound(value, found)
    return found


def _of_super(interpreter: Interpreter, value: Super, name: str) -> Value:
    receiver = value.receiver
    if not isinstance(receiver, Instance | SourceClass | NativeClass):
        raise NotUnderstoodError("super() of what is no instance")
    order = receiver.cls.mro if isinstance(receiver, Instance) else receiver.mro
    if value.owner not in order:
        raise RaisedError("TypeError", "super(type, obj): obj must be an instance or subtype of type")
    found = class_member(interpreter, order[order.index(value.owner) + 1 :], name)
    if found is MISSING and name in _OBJECT:
        found = _OBJECT[name]
    if found is MISSING:
        if reason := unread_ancestor(value.owner):
            raise NotUnderstoodError(f"the attribute {name} may come from {reason}")
        raise RaisedError("AttributeError", f"super() has no attribute {name}")
    return bind(interpreter, found, receiver)


# What ``object`` itself gives to ``super()``.
_OBJECT = {
    "__init__": Native("object.__init__", lambda interpreter, this, *args, **kwargs: None, raw=True),
    "__getattribute__": Native(
        "object.__getattribute__",
        lambda interpreter, this, name: get(interpreter, this, interpreter.pin(name)),
        raw=True,
    ),
    "__setattr__": Native(
        "object.__setattr__",
        lambda interpreter, this, name, new: store(interpreter, this, interpreter.pin(name), new),
        raw=True,
    ),
}


def _of_function(value: Function | Native, name: str) -> Value:
    if name in ("__name__", "__qualname__"):
        return value.name.rpartition(".")[2]
    if isinstance(value, Function) and name in value.attributes:
        return value.attributes[name]
    if isinstance(value, Function) and name == "__set__" and value.setter is not None:
        return value.setter
    if name == "__doc__":
        return None
    raise RaisedError("AttributeError", f"{value.name} has no attribute {name}")


def put(interpreter: Interpreter, value: Value, name: str, new: Value) -> None:
    """``value.name = new``."""
    if isinstance(value, Instance):
        setter = class_member(interpreter, value.cls.mro, "__setattr__")
        if isinstance(setter, Function) and setter.scope.namespace.custom:
            interpreter.call(Bound(value, setter), [name, new], {})
            return
    store(interpreter, value, name, new)


def store(interpreter: Interpreter, value: Value, name: str, new: Value) -> None:
    """What ``object.__setattr__(value, name, new)`` does."""
    interpreter.replay.changed(value)
    if isinstance(value, Instance):
        if name == "__class__":
            raise NotUnderstoodError(f"setting the class of {describe(value)}")
        name = value.renamed.get(name, name) if value.renamed else name
        member = class_member(interpreter, value.cls.mro, name)
        if isinstance(member, Function) and member.setter is not None:
            interpreter.call(member.setter, [value, new], {})
        else:
            value.attributes[name] = new
            if not interpreter.constructing:
                interpreter.fresh.add((value, name))
    elif isinstance(value, SourceClass):
        value.namespace[name] = new
    elif isinstance(value, Function):
        value.attributes[name] = new
    elif is_tensor(value):
        interpreter.set_tensor_attribute(value, name, new)
    elif isinstance(value, Opaque | NativeClass):
        interpreter.names.replace(f"{value.name}.{name}", f"replaced in {interpreter.trace.where}")
    elif isinstance(value, PythonModule):
        value.namespace.set(name, new)
    else:
        raise NotUnderstoodError(f"setting the attribute {name} of {describe(value)}")


def delete(interpreter: Interpreter, value: Value, name: str) -> None:
    interpreter.replay.changed(value)
    if isinstance(value, Instance) and name in value.attributes:
        del value.attributes[name]
    else:
        raise RaisedError("AttributeError", f"{describe(value)} has no attribute {name}")
