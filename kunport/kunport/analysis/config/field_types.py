"""Whether a value has the type that a field of a ``@strict`` dataclass is annotated with.

The rules are those of huggingface_hub's decorator: an int is no float, a bool is no int, items of lists and
dictionaries are checked. A type that has no rule here takes any value.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

_SIMPLE: dict[str, Callable[[Any], bool]] = {
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "float": lambda value: isinstance(value, float),
    "bool": lambda value: isinstance(value, bool),
    "str": lambda value: isinstance(value, str),
    "list": lambda value: isinstance(value, list),
    "tuple": lambda value: isinstance(value, tuple),
    "dict": lambda value: isinstance(value, dict),
}


def fits(annotation: ast.expr, value: Any) -> bool:
    """Whether the value is one that the annotation allows."""
    match annotation:
        case ast.Constant(value=None):
            return value is None
        case ast.Name(id=name):
            return name not in _SIMPLE or _SIMPLE[name](value)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return fits(left, value) or fits(right, value)
        case ast.Subscript(value=ast.Name(id=name), slice=inner):
            arguments = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            return _generic_fits(name, arguments, value)
    return True


def _generic_fits(name: str, arguments: list[ast.expr], value: Any) -> bool:
    if name in _SIMPLE and not _SIMPLE[name](value):
        return False
    if name == "list":
        return all(fits(arguments[0], item) for item in value)
    if name == "dict":
        return all(fits(arguments[0], key) and fits(arguments[-1], item) for key, item in value.items())
    if name == "tuple" and len(arguments) == 2 and ast.unparse(arguments[1]) == "...":
        return all(fits(arguments[0], item) for item in value)
    if name == "tuple":
        return len(arguments) == len(value) and all(map(fits, arguments, value))
    if name == "Optional":
        return value is None or fits(arguments[0], value)
    if name == "Union":
        return any(fits(argument, value) for argument in arguments)
    if name == "Literal":
        literals = [argument.value for argument in arguments if isinstance(argument, ast.Constant)]
        return any(type(value) is type(literal) and value == literal for literal in literals)
    return True
