"""Configuration classes that have nothing to do with Transformers: dataclasses, namespaces, plain objects."""

from __future__ import annotations

import ast
from typing import Any

from kunport.analysis.config.intrinsics import BASE
from kunport.analysis.interpreter import Interpreter
from kunport.analysis.interpreter.attributes import MISSING, class_member
from kunport.analysis.interpreter.classes import record_fields
from kunport.analysis.parameters import named as parameter_names
from kunport.analysis.values import Function, NativeClass, SourceClass, Value, is_subclass
from kunport.errors import KunportError

# What config.json says about the checkpoint, not to the model.
ABOUT = {"architectures", "auto_map", "model_type", "transformers_version", "torch_dtype", "dtype", "name_or_path"}


def is_own(cls: SourceClass) -> bool:
    """Whether a configuration class is not one of Transformers."""
    return not is_subclass(cls, BASE)


def accepted(interpreter: Interpreter, cls: SourceClass, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that the class's constructor takes.

    Raises:
        KunportError: it needs others.
    """
    initializer = class_member(interpreter, cls.mro, "__init__")
    if isinstance(initializer, Function) and not isinstance(initializer.node, ast.Lambda):
        parameters = initializer.node.args
        names = parameter_names(parameters)[1:]
        required = [name for name in names if name not in initializer.defaults]
        wild = parameters.kwarg is not None
    else:
        names = record_fields(cls) if cls.record or any(getattr(each, "record", False) for each in cls.mro) else []
        required = [name for name in names if class_member(interpreter, cls.mro, name) is MISSING]
        wild = is_subclass(cls, "typing.TypedDict")
    if missing := [name for name in required if name not in fields]:
        raise KunportError(
            f"The configuration {cls.name} needs {', '.join(missing)}, and nothing gives "
            f"{'them' if missing[1:] else 'it'}.",
            "Give them with --config FILE, a JSON object of fields.",
        )
    return {name: value for name, value in fields.items() if name in names or (wild and name not in ABOUT)}


def class_fields(interpreter: Interpreter, cls: SourceClass) -> dict[str, Value]:
    """The plain values that the body of the class, or of a base of it, binds: they are fields as well."""
    found: dict[str, Value] = {}
    for ancestor in reversed(cls.mro):
        if isinstance(ancestor, NativeClass):
            continue
        for name in ancestor.members:
            value = class_member(interpreter, [ancestor], name)
            if not name.startswith("_") and isinstance(value, bool | int | float | str | list | dict | None):
                found[name] = value
    return found
