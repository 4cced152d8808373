"""Runs a configuration class's constructor on plain values, as Transformers would run it.

Configurations of Transformers 5 are dataclasses whose constructor takes any keyword: the fields are set in their order
and whatever else was given goes to ``__post_init__``, which derives fields, standardises RoPE parameters and stores the
rest as attributes; ``@strict`` then runs the ``validate_*`` methods. All of it but the setting of fields is
interpreted from source. A class with an ``__init__`` of its own (older custom code) runs that.
"""

from __future__ import annotations

import ast
import copy
from typing import Any

from kunport.analysis.config.field_types import fits
from kunport.analysis.config.intrinsics import BASE, BASE_MEMBERS
from kunport.analysis.interpreter import Interpreter, NotUnderstoodError, RaisedError
from kunport.analysis.interpreter.attributes import MISSING, class_member
from kunport.analysis.interpreter.classes import field_default, record_fields
from kunport.analysis.interpreter.containers import lift
from kunport.analysis.values import Function, Instance, Native, Opaque, SourceClass, Value

# What classes raise to refuse fields. Anything else that comes up is more likely a limit of the interpretation.
_REFUSALS = ("ValueError", "KeyError")


def construct(interpreter: Interpreter, cls: SourceClass, fields: dict[str, Any], *, traced: bool = False) -> Instance:
    """The configuration object that ``cls(**fields)`` gives.

    Where the constructor is not understood, every attribute that it could have changed is an `Opaque` with the reason.
    With ``traced`` its fields remember their names, those of ``fields`` as they are given.

    Raises:
        RaisedError: the class refuses the fields.
    """
    _prepare(interpreter, cls, cls if traced else None)
    config = Instance(cls)
    try:
        initializer = constructor_of(interpreter, cls)
        if initializer is MISSING:  # a dataclass of custom code, which config.json holds more than the fields of
            own = {name: fields[name] for name in record_fields(cls) if name in fields}
            made: Instance = interpreter.instantiate(cls, [], copy.deepcopy(own))
            return made
        interpreter.call(initializer, [config], copy.deepcopy(fields))
    except (NotUnderstoodError, RaisedError) as problem:
        if isinstance(problem, RaisedError) and problem.name in _REFUSALS:
            raise
        _forget(interpreter, config, fields, f"the constructor of {cls.name} was not understood ({problem})")
    return config


def constructor_of(interpreter: Interpreter, cls: SourceClass) -> Value:
    """What the class's ``__init__`` is; `MISSING` without one."""
    return class_member(interpreter, cls.mro, "__init__")


def _prepare(interpreter: Interpreter, cls: SourceClass, traced: SourceClass | None) -> None:
    """Gives the class, its bases and those of its parts the members that being a configuration gives them."""
    for ancestor in cls.mro:
        if isinstance(ancestor, SourceClass) and any(each.name == BASE for each in ancestor.mro):
            if "__init__" not in ancestor.members:
                ancestor.namespace["__init__"] = _constructor(ancestor, traced)
            if ancestor.name == BASE:
                ancestor.namespace.update(BASE_MEMBERS)
    parts = class_member(interpreter, cls.mro, "sub_configs")
    for part in parts.values() if isinstance(parts, dict) else ():
        if isinstance(part, SourceClass):
            _prepare(interpreter, part, traced)


def _constructor(cls: SourceClass, traced: SourceClass | None) -> Native:
    strict = traced is None and any(
        "strict" in ast.unparse(each).partition("(")[0].split(".") for each in cls.node.decorator_list
    )

    def construct(interpreter: Interpreter, this: Instance, **given: Value) -> None:
        this.renamed = class_member(interpreter, this.cls.mro, "attribute_map")
        names = record_fields(cls)
        if strict:
            _check_types(cls, names, given)
        for name in names:
            value = given[name] if name in given else _default(interpreter, cls, name)
            interpreter.set_attribute(this, name, lift(value, name) if this.cls is traced else value)
        rest = {name: value for name, value in given.items() if name not in names}
        interpreter.call(interpreter.attribute(this, "__post_init__"), [], rest)
        if strict:
            _validate(interpreter, this)

    return Native(f"{cls.name}.__init__", construct, raw=True)


def _default(interpreter: Interpreter, cls: SourceClass, name: str) -> Value:
    default = class_member(interpreter, cls.mro, name)
    if default is MISSING:
        raise RaisedError("ValueError", f"the field {name} is missing")
    return field_default(interpreter, default)


def _check_types(cls: SourceClass, names: list[str], given: dict[str, Value]) -> None:
    """Refuses a field of the wrong type. The base class's own annotations are strings, which are not checked."""
    annotations = {
        statement.target.id: statement.annotation
        for ancestor in reversed(cls.mro)
        if isinstance(ancestor, SourceClass) and ancestor.name != BASE
        for statement in ancestor.node.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    }
    for name in names:
        if name in given and name in annotations and not fits(annotations[name], given[name]):
            kind = ast.unparse(annotations[name])
            raise RaisedError("ValueError", f"the field {name} must be {kind} but is {given[name]!r}")


def _validate(interpreter: Interpreter, this: Instance) -> None:
    """The checks of ``@strict``, in the order of their names; ``validate_rope`` also completes what it checks."""
    names = {name for cls in this.cls.mro if isinstance(cls, SourceClass) for name in cls.members}
    for name in sorted(each for each in names if each.startswith("validate_")):
        try:
            interpreter.call(interpreter.attribute(this.cls, name), [this], {})
        except NotUnderstoodError:
            continue  # a check that is not understood refuses nothing


def _forget(interpreter: Interpreter, config: Instance, fields: dict[str, Any], reason: str) -> None:
    """Makes opaque what the methods of the class assign to, and what was given beyond the declared fields."""
    assigned = {
        node.attr
        for cls in config.cls.mro
        if isinstance(cls, SourceClass)
        for node in ast.walk(cls.node)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    declared = set(record_fields(config.cls)) if isinstance(config.cls, SourceClass) else set()
    unset = declared - config.attributes.keys()
    for name in sorted(assigned | unset | (fields.keys() - declared)):
        if not _is_computed(interpreter, config, name):
            config.attributes[name] = Opaque(name, reason)


def _is_computed(interpreter: Interpreter, config: Instance, name: str) -> bool:
    """Whether the class computes what it calls so: a property is no attribute to forget."""
    try:
        return isinstance(class_member(interpreter, config.cls.mro, name), Function)
    except (NotUnderstoodError, RaisedError):
        return False
