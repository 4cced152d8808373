"""Operators of Python on abstract values: arithmetic, comparison, truth."""

from __future__ import annotations

import ast
import operator as python
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kunport_codegen.expression import OPERATORS, Expr, Scalar, apply, const, expr_of, symbols_of, unwrap
from kunport_codegen.graph import DType

from kunport.analysis.interpreter import limits
from kunport.analysis.interpreter.signals import NotUnderstoodError, RaisedError
from kunport.analysis.values import (
    FieldDict,
    FieldList,
    Instance,
    Native,
    NativeClass,
    Opaque,
    SourceClass,
    Tensor,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

# Python's operator -> (scalar operator, torch operator, Python's special method).
BINARY: dict[type[ast.operator], tuple[str, str, str]] = {
    ast.Add: ("add", "add", "add"),
    ast.Sub: ("sub", "sub", "sub"),
    ast.Mult: ("mul", "mul", "mul"),
    ast.Div: ("div", "div", "truediv"),
    ast.FloorDiv: ("floordiv", "floor_divide", "floordiv"),
    ast.Mod: ("mod", "remainder", "mod"),
    ast.Pow: ("pow", "pow", "pow"),
    ast.MatMult: ("matmul", "matmul", "matmul"),
    ast.BitAnd: ("and_", "bitwise_and", "and"),
    ast.BitOr: ("or_", "bitwise_or", "or"),
    ast.BitXor: ("xor", "bitwise_xor", "xor"),
    ast.LShift: ("lshift", "bitwise_left_shift", "lshift"),
    ast.RShift: ("rshift", "bitwise_right_shift", "rshift"),
}
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Is: "is",
    ast.IsNot: "is_not",
    ast.In: "in",
    ast.NotIn: "not_in",
}
_UNARY: dict[type[ast.unaryop], tuple[str, str]] = {
    ast.USub: ("neg", "neg"),
    ast.Invert: ("invert", "bitwise_not"),
    ast.UAdd: ("pos", "positive"),
}
# Python's own function of a scalar operator that expressions cannot hold.
_PLAIN: dict[str, Callable[..., Any]] = {
    name: getattr(python, name) for name in ("and_", "or_", "xor", "lshift", "rshift", "invert", "pos", "matmul")
}


# The symbol of a turn's number is this and the id of the row.
TURN = "turn_"


def is_tensor(value: Value) -> bool:
    return isinstance(value, Tensor | Unknown)


def binary(interpreter: Interpreter, operator: type[ast.operator], left: Value, right: Value) -> Value:
    scalar, tensor, special = BINARY[operator]
    if is_tensor(left) or is_tensor(right):
        return interpreter.operator(tensor, (left, right), {})
    if isinstance(left, Instance) and (method := interpreter.find(left, f"__{special}__")) is not None:
        return interpreter.call(method, [right], {})
    if isinstance(right, Instance) and (method := interpreter.find(right, f"__r{special}__")) is not None:
        return interpreter.call(method, [left], {})
    if isinstance(left, Opaque | NativeClass | SourceClass | Native) or isinstance(
        right, Opaque | NativeClass | SourceClass | Native
    ):
        if scalar == "or_":  # a union of types
            return (*_as_tuple(left), *_as_tuple(right))
        raise NotUnderstoodError(f"the operator {special} on {describe(left)} and {describe(right)}")
    return scalar_operator(interpreter, scalar, left, right)


def _as_tuple(value: Value) -> tuple[Value, ...]:
    return value if isinstance(value, tuple) else (value,)


def unary(interpreter: Interpreter, operator: type[ast.unaryop], operand: Value) -> Value:
    scalar, tensor = _UNARY[operator]
    if is_tensor(operand):
        return interpreter.operator(tensor, (operand,), {})
    return scalar_operator(interpreter, scalar, operand)


def scalar_operator(interpreter: Interpreter, name: str, *operands: Value) -> Value:
    """An operator on plain values and scalars. What expressions cannot hold is decided on the values."""
    limits.check_operator(name, [unwrap(each) for each in operands])
    try:
        if name in OPERATORS and all(isinstance(each, Scalar | int | float | str | None) for each in operands):
            return apply(name, *operands)
        plain = [interpreter.pin(operand) for operand in operands]
        return (_PLAIN.get(name) or OPERATORS[name][2])(*plain)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError, KeyError) as error:
        raise RaisedError(type(error).__name__, str(error)) from None


def compare(interpreter: Interpreter, name: str, left: Value, right: Value) -> Value:
    if name in ("is", "is_not"):
        return _identity(name, left, right)
    if name in ("in", "not_in"):
        return _membership(interpreter, name, left, right)
    if is_tensor(left) or is_tensor(right):
        if any(isinstance(each, type(None) | str | DType) for each in (left, right)):
            return name == "ne"
        return interpreter.operator(name, (left, right), {})
    if isinstance(left, Instance) and (method := interpreter.find(left, f"__{name}__")) is not None:
        return interpreter.call(method, [right], {})
    if name in ("eq", "ne"):
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Instance) and (method := interpreter.find(one, "__eq__")) is not None:
                return interpreter.truth(interpreter.call(method, [other], {})) == (name == "eq")
    if isinstance(left, DType) and isinstance(right, DType) and left != right and "model" in (left.name, right.name):
        interpreter.trace.note(f"{interpreter.trace.where}: the model's dtype was taken as different from {right.name}")
    return with_fields(name, left, right) or _plain_comparison(interpreter, name, left, right)


def _plain_comparison(interpreter: Interpreter, name: str, left: Value, right: Value) -> Value:
    if isinstance(left, tuple | list) and isinstance(right, tuple | list) and name in ("eq", "ne"):
        same = len(left) == len(right) and all(
            interpreter.truth(compare(interpreter, "eq", a, b)) for a, b in zip(left, right, strict=True)
        )
        return same == (name == "eq")
    if isinstance(left, Scalar) or isinstance(right, Scalar):
        return scalar_operator(interpreter, name, left, right)
    try:
        return OPERATORS[name][2](left, right)
    except TypeError as error:
        raise RaisedError("TypeError", str(error)) from None


def with_fields(name: str, *operands: Value) -> Scalar | None:
    """The operator as a scalar where an operand is a list or dictionary of the configuration, else None."""
    if not any(isinstance(operand, FieldList | FieldDict) for operand in operands):
        return None
    exprs = [expression(operand) for operand in operands]
    if any(expr is None for expr in exprs):
        return None
    return Scalar(OPERATORS[name][2](*(plain(operand) for operand in operands)), Expr(name, tuple(exprs)))


def expression(value: Value) -> Expr | None:
    """The expression of a value, where it has one."""
    if isinstance(value, Scalar):
        return value.expr
    if isinstance(value, FieldList | FieldDict):
        return Expr("field", (value.path,)) if value.path else None
    bare = plain(value)
    return (
        Expr("const", (bare,))
        if isinstance(bare, int | float | str | None | tuple | list) and _constant(bare)
        else None
    )


def _constant(value: Value) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_constant, value))
    return isinstance(value, int | float | str | None)


def plain(value: Value) -> Value:
    """The value without expressions, inside containers too. Decides nothing."""
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, list | tuple | set):
        return type(value)(map(plain, value)) if not isinstance(value, FieldList) else [plain(each) for each in value]
    if isinstance(value, dict):
        return {plain(key): plain(each) for key, each in value.items()}
    return value


def _identity(name: str, left: Value, right: Value) -> Value:
    if isinstance(left, Scalar) and right is None:
        return Scalar((left.value is None) == (name == "is"), Expr(name, (left.expr, const(None))))
    if isinstance(left, FieldList | FieldDict) and right is None and left.path:
        return Scalar(name != "is", Expr(name, (Expr("field", (left.path,)), const(None))))
    a, b = unwrap(left), unwrap(right)
    plain = all(isinstance(each, Scalar | int | float | str | None) for each in (left, right))
    if plain and any(isinstance(each, bool) for each in (a, b)) and Scalar in (type(left), type(right)):
        return Scalar((type(a) is type(b) and a == b) == (name == "is"), Expr(name, (expr_of(left), expr_of(right))))
    same = a is b or (isinstance(a, DType | bool) and a == b)
    return same == (name == "is")


def _membership(interpreter: Interpreter, name: str, left: Value, right: Value) -> Value:
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        raise NotUnderstoodError("membership of an unknown value")
    if isinstance(right, Instance):
        if right.items is not None:
            found = unwrap(left) in right.items
        elif (method := interpreter.find(right, "__contains__")) is not None:
            return interpreter.call(method, [left], {})
        else:
            raise NotUnderstoodError(f"membership in {describe(right)}")
        return found == (name == "in")
    if isinstance(right, Opaque):
        raise NotUnderstoodError(f"membership in {right.name}, which is {right.reason}")
    if isinstance(left, Scalar) or isinstance(right, Scalar | FieldList | FieldDict):
        # A list of constants is written as a tuple, which an expression can hash.
        exprs = expression(left), expression(tuple(right) if type(right) is list else right)
        if None not in exprs:
            return Scalar((plain(left) in plain(right)) == (name == "in"), Expr(name, exprs))
    if isinstance(right, str) and isinstance(left, str):
        return (left in right) == (name == "in")
    if not isinstance(right, list | tuple | dict | range):
        raise RaisedError("TypeError", f"{describe(right)} is no container")
    return any(_same(interpreter, left, each) for each in right) == (name == "in")


def _same(interpreter: Interpreter, left: Value, right: Value) -> bool:
    if left is right:
        return True
    if isinstance(left, Instance) or isinstance(right, Instance):
        return interpreter.truth(compare(interpreter, "eq", left, right))
    if isinstance(left, Scalar) or isinstance(right, Scalar):
        return bool(interpreter.pin(left) == interpreter.pin(right))
    return bool(left == right)


def truth(interpreter: Interpreter, value: Value) -> bool:
    """Whether a branch on the value is taken; a decision on a scalar is recorded.

    Raises:
        NotUnderstoodError: the value is only known when the model runs.
    """
    if isinstance(value, Scalar):
        refuse_turns(value)
        outcome = bool(value.value)
        interpreter.trace.decide(value.expr if isinstance(value.value, bool) else Expr("bool", (value.expr,)), outcome)
        return outcome
    if isinstance(value, Tensor):
        raise NotUnderstoodError("a branch on the values of a tensor")
    if isinstance(value, Unknown):
        raise NotUnderstoodError(f"a branch on an unknown value ({value.reason})")
    if isinstance(value, Opaque):
        raise NotUnderstoodError(f"a branch on {value.name}, which is {value.reason}")
    if isinstance(value, Instance):
        if value.items is not None:
            return bool(value.items)
        for special in ("__bool__", "__len__"):
            if (method := interpreter.find(value, special)) is not None:
                return interpreter.truth(interpreter.call(method, [], {}))
        return True
    if isinstance(value, FieldList | FieldDict) and value.path:
        interpreter.trace.decide(Expr("bool", (Expr("field", (value.path,)),)), bool(value))
    return bool(value)


def refuse_turns(value: Scalar) -> None:
    """A turn stands for all turns of its loop, so that nothing may be decided on its number.

    Raises:
        NotUnderstoodError: the scalar depends on the number of a turn.
    """
    if any(name.startswith(TURN) for name in symbols_of(value.expr)):
        raise NotUnderstoodError("a decision on the number of a loop's turn")


def describe(value: Value) -> str:
    """A value in words, for reasons."""
    if isinstance(value, Opaque):
        return f"{value.name}, which is {value.reason}"
    if isinstance(value, SourceClass | NativeClass):
        return f"the class {value.name}"
    if isinstance(value, Unknown):
        return f"an unknown value ({value.reason})"
    name = getattr(value, "name", None)
    return name if isinstance(name, str) else f"a value of type {type(value).__name__}"
