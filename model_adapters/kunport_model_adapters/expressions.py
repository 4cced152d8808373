"""Values of the expressions that guards are written in, computed without running code.

An expression is Python over one name, ``config``: fields, items, arithmetic, comparisons and a few
functions of numbers. It is walked as a syntax tree and whatever is not listed here is refused, so that
a guard read from a file can do nothing but read a configuration.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_LONGEST = 2000  # characters; a guard is one line
_DEEPEST = 100  # operators inside each other, far below Python's limit of recursion
_HIGHEST_EXPONENT = 64

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_COMPARISON: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda item, container: item in container,
    ast.NotIn: lambda item, container: item not in container,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "bool": bool,
    "float": float,
    "int": int,
    "len": len,
    "max": max,
    "min": min,
    "round": round,
    "str": str,
    "math.ceil": math.ceil,
    "math.floor": math.floor,
    "math.log": math.log,
    "math.sqrt": math.sqrt,
}


class ExpressionError(Exception):
    """A text is no expression over a configuration."""


def parse(expression: str) -> ast.expr:
    """The syntax tree of an expression.

    Raises:
        ExpressionError: it is no expression, or too long or too deep.
    """
    if len(expression) > _LONGEST:
        raise ExpressionError(f"An expression of {len(expression)} characters is too long for a guard.")
    try:
        tree = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f"{expression!r} is no expression.") from None
    layer: list[ast.AST] = [tree]
    for _ in range(_DEEPEST):
        layer = [child for node in layer for child in ast.iter_child_nodes(node)]
    if layer:
        raise ExpressionError("An expression is nested too deeply for a guard.")
    return tree


def evaluate(tree: ast.expr, config: object) -> Any:
    """The value of an expression for a configuration.

    Raises:
        ExpressionError: the expression holds something that is not allowed.
        ArithmeticError, AttributeError, LookupError, TypeError, ValueError: the configuration has no such field or
            item, or one that the expression cannot be computed for.
    """
    match tree:
        case ast.Constant(value=value) if value is None or isinstance(value, str | int | float):
            return value
        case ast.Name(id="config"):
            return config
        case ast.Attribute(value=owner, attr=name):
            return _field(evaluate(owner, config), name)
        case ast.Subscript(value=owner, slice=key):
            return _item(evaluate(owner, config), evaluate(key, config))
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return tuple(evaluate(element, config) for element in elements)
        case ast.BoolOp(op=op, values=operands):
            return _either(isinstance(op, ast.Or), operands, config)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _UNARY[type(op)](evaluate(operand, config))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _binary(op, evaluate(left, config), evaluate(right, config))
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            values = [evaluate(operand, config) for operand in (left, *comparators)]
            return all(_COMPARISON[type(op)](a, b) for op, a, b in zip(ops, values[:-1], values[1:], strict=True))
        case ast.Call(func=function, args=arguments, keywords=[]) if ast.unparse(function) in _FUNCTIONS:
            return _FUNCTIONS[ast.unparse(function)](*(evaluate(argument, config) for argument in arguments))
    raise ExpressionError(f"{ast.unparse(tree)!r} is not allowed in a guard.")


def fields(tree: ast.expr) -> list[str]:
    """The configuration paths that an expression reads, such as ``rope_parameters['rope_type']``, in order."""
    found: dict[str, None] = {}
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop(0)
        if _is_path(node):
            found[ast.unparse(node).removeprefix("config.")] = None
        else:
            pending[:0] = ast.iter_child_nodes(node)
    return list(found)


def _is_path(node: ast.AST) -> bool:
    """Whether a node is ``config`` followed by fields and constant items only, at least one."""
    if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
        return False
    if not isinstance(node, ast.Attribute | ast.Subscript):
        return False
    return (isinstance(node.value, ast.Name) and node.value.id == "config") or _is_path(node.value)


def _field(owner: object, name: str) -> Any:
    # Plain values have no fields, only methods. A name with an underscore is a field where it holds a plain value.
    if isinstance(owner, str | int | float | Mapping | Sequence | None) or (
        name.startswith("_") and not isinstance(vars(owner).get(name, owner), str | int | float | None)
    ):
        raise ExpressionError(f"{name!r} is no field of a configuration.")
    return getattr(owner, name)


def _item(owner: object, key: Any) -> Any:
    if not isinstance(owner, Mapping | Sequence):
        raise TypeError(f"{type(owner).__name__} has no items")
    return owner[key]


def _either(stop: bool, operands: Sequence[ast.expr], config: object) -> Any:
    """``or`` (stop is true) and ``and`` (false): the first operand of that truth, else the last."""
    value: Any = None
    for operand in operands:
        value = evaluate(operand, config)
        if bool(value) is stop:
            break
    return value


def _binary(op: ast.operator, left: Any, right: Any) -> Any:
    # Numbers only, and small powers: text and lists could be multiplied until memory is full.
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        raise TypeError(f"arithmetic on {type(left).__name__} and {type(right).__name__}")
    if isinstance(op, ast.Pow) and abs(right) > _HIGHEST_EXPONENT:
        raise ExpressionError(f"The exponent {right} is too large for a guard.")
    return _BINARY[type(op)](left, right)
