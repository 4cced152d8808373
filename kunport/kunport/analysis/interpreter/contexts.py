"""Context managers of the source's own: what they do before and after the block that they are around.

Those of a library set modes (no gradients, autocast off) that leave a forward pass as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from kunport.analysis.interpreter import attributes, calls, statements
from kunport.analysis.interpreter.expressions import call_arguments, evaluate
from kunport.analysis.interpreter.scope import Scope
from kunport.analysis.interpreter.signals import NotUnderstoodError
from kunport.analysis.values import Bound, Function, Instance, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

MARK = "contextmanager"  # the attribute of functions that `contextlib.contextmanager` decorates
Leave = Callable[[], None]


def enter(interpreter: Interpreter, item: ast.withitem, scope: Scope) -> Leave:
    """Runs what comes before the block; what is returned runs what comes after it.

    Raises:
        NotUnderstoodError: the two parts of a context manager cannot be told apart.
    """
    own = _own_generator(interpreter, item.context_expr, scope)
    if own is not None:
        value, leave = own
    else:
        value = evaluate(interpreter, item.context_expr, scope)
        value, leave = _entered(interpreter, value)
    if item.optional_vars is not None:
        interpreter.assign(item.optional_vars, value, scope)
    return leave


def _entered(interpreter: Interpreter, value: Value) -> tuple[Value, Leave]:
    """An object of a class of the source is asked to enter and to leave."""
    enters = isinstance(value, Instance) and attributes.class_member(interpreter, value.cls.mro, "__enter__")
    if not isinstance(enters, Function):
        return value, lambda: None

    def leave() -> None:
        interpreter.call(attributes.get(interpreter, value, "__exit__"), [None, None, None], {})

    return interpreter.call(Bound(value, enters), [], {}), leave


def _own_generator(interpreter: Interpreter, node: ast.expr, scope: Scope) -> tuple[Value, Leave] | None:
    """A call of a decorated generator, run up to its ``yield``; None for anything else."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
        return None
    function, receiver = evaluate(interpreter, node.func, scope), []
    if isinstance(function, Bound):
        function, receiver = function.function, [function.receiver]
    if not isinstance(function, Function) or MARK not in function.attributes:
        return None
    assert not isinstance(function.node, ast.Lambda), "a lambda is not decorated"
    parts = _split(function.node.body)
    if parts is None:
        raise NotUnderstoodError(f"the context manager {function.name}, which yields in more than one place")
    before, given, after = parts
    args, kwargs = call_arguments(interpreter, node, scope)
    inside = calls.scope_of(interpreter, function, [*receiver, *args], kwargs)
    statements.block(interpreter, before, inside)
    value = None if given is None else evaluate(interpreter, given, inside)

    def leave() -> None:
        statements.block(interpreter, after, inside)

    return value, leave


def _split(body: list[ast.stmt]) -> tuple[list[ast.stmt], ast.expr | None, list[ast.stmt]] | None:
    """What a generator does before its only ``yield``, what it yields, and what it does after it."""
    yields = [each for statement in body for each in ast.walk(statement) if isinstance(each, ast.Yield | ast.YieldFrom)]
    if len(yields) != 1:
        return None
    for number, statement in enumerate(body):
        match statement:
            case ast.Expr(value=ast.Yield(value=given)):
                return body[:number], given, body[number + 1 :]
            case ast.Try(body=[*first, ast.Expr(value=ast.Yield(value=given))], orelse=orelse, finalbody=last):
                return [*body[:number], *first], given, [*orelse, *last, *body[number + 1 :]]
    return None
