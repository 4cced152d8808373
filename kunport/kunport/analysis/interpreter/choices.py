"""Which lines run as they do because of the values of configuration fields, so that facts can say so."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from kunport_codegen.expression import Expr

from kunport.analysis.interpreter.scope import Scope

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

# Statements that a name looked up in them is for; those of loops and functions are for what is inside.
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)


def branch(interpreter: Interpreter, node: ast.If, outcome: bool, position: int, scope: Scope) -> None:
    """An ``if`` was decided: its branch is chosen, and what follows where the other one would have returned."""
    trace = interpreter.trace
    decided = trace.taken_since(position)
    if not decided:
        return
    taken, other = (node.body, node.orelse) if outcome else (node.orelse, node.body)
    around: ast.AST = scope.function.node if scope.function is not None else node
    following = (
        [each for each in around.body if each.lineno > _end(node)] if isinstance(around, ast.FunctionDef) else []
    )
    chosen = []
    if taken:
        chosen.append((taken[0].lineno, _end(taken[-1])))
    if other and following and isinstance(other[-1], ast.Return):
        chosen.append((following[0].lineno, _end(following[-1])))
    for first, last in chosen:
        trace.chose(decided, first, last, _names(around, first, last))


def of_line(interpreter: Interpreter, position: int) -> None:
    """A conditional expression was decided on the current line."""
    trace = interpreter.trace
    if decided := trace.taken_since(position):
        trace.chose(decided, trace.where.line, trace.where.line)


def by_name(interpreter: Interpreter, node: ast.stmt, position: int) -> None:
    """A statement has run that may have looked up a class or a function by the name that a field gives."""
    trace = interpreter.trace
    if not isinstance(node, _SIMPLE):
        return
    if decided := [expr for expr in trace.taken_since(position) if _is_name(expr)]:
        trace.chose(decided, node.lineno, _end(node))


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _names(node: ast.AST, first: int, last: int) -> frozenset[str]:
    """The names and attributes that a function uses outside of some of its lines."""
    every = [each for each in ast.walk(node) if not first <= getattr(each, "lineno", first) <= last]
    names = {each.id for each in every if isinstance(each, ast.Name)}
    return frozenset(names | {each.attr for each in every if isinstance(each, ast.Attribute)})


def _is_name(expr: Expr) -> bool:
    """Whether a decision fixed a text: numbers are fixed where something is counted."""
    value = expr.args[1] if expr.op == "eq" and isinstance(expr.args[1], Expr) else None
    return value is not None and value.op == "const" and isinstance(value.args[0], str)
