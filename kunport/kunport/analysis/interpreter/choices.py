"""Which lines run as they do because of the values of configuration fields, so that facts can say so."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kunport_codegen.expression import Expr, Scalar, chosen_by

from kunport.analysis.interpreter import branches
from kunport.analysis.interpreter.scope import Scope
from kunport.analysis.trace import INDEXED
from kunport.analysis.values import (
    Bound,
    FieldList,
    Function,
    Instance,
    Native,
    NativeClass,
    Partial,
    SourceClass,
    Value,
)

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

# What has no expression, and is followed by its name.
_PICKED = (SourceClass, NativeClass, Function, Partial, Bound, Native)
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


def labelled(value: Value, fields: frozenset[str]) -> Value:
    """A plain value with the fields that decided that it was taken; anything else is as it is."""
    if not fields:
        return value
    if isinstance(value, tuple):
        return tuple(labelled(each, fields) for each in value)
    return chosen_by(value, fields) if isinstance(value, Scalar | int | float | str | None) else value


def picked(interpreter: Interpreter, value: Value, position: int) -> Value:
    """The value of an expression in which decisions were taken, as in ``a if config.flag else b``."""
    return labelled(value, interpreter.trace.picking(position))


def left_out(block: Sequence[ast.stmt], fields: frozenset[str], scope: Scope) -> None:
    """A branch was not taken: what it would have set is what it is because of that."""
    for name in sorted({each for statement in block for each in branches.bound(statement)}):
        if name in scope.variables:
            scope.variables[name] = labelled(scope.variables[name], fields)
            if isinstance(scope.variables[name], _PICKED):
                scope.picked[name] = scope.picked.get(name, frozenset()) | fields
    for target in (each for statement in block for each in ast.walk(statement)):
        if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store):
            holder = scope.variables.get(target.value.id) if isinstance(target.value, ast.Name) else None
            if isinstance(holder, Instance) and target.attr in holder.attributes:
                holder.attributes[target.attr] = labelled(holder.attributes[target.attr], fields)


def hand(interpreter: Interpreter, value: Value, position: int, scope: Scope) -> None:
    """A function returns a class or another function: what it was picked by goes with it to the name that it gets."""
    if isinstance(value, _PICKED):
        interpreter.trace.handed = value, scope.given | interpreter.trace.picking(position)


def name(interpreter: Interpreter, target: ast.expr, value: Value, position: int, scope: Scope) -> None:
    """A class or a function gets a name: what is made by that name is there because of what it was picked by."""
    if isinstance(target, ast.Name):
        scope.picked.pop(target.id, None)
        if isinstance(value, _PICKED):
            handed, fields = interpreter.trace.handed
            fields = (fields if handed is value else frozenset()) | scope.given | interpreter.trace.picking(position)
            scope.picked.update({target.id: fields} if fields else {})


def loop(
    interpreter: Interpreter, node: ast.For | ast.expr, values: Value, fields: frozenset[str], counted: int
) -> None:
    """A loop runs as often as fields of the configuration say."""
    path = {INDEXED.sub("", values.path)} if isinstance(values, FieldList) and values.path else set()
    every = fields.union(path, *interpreter.trace.counts[counted:])
    if every and interpreter.constructing:
        interpreter.trace.counted(every, node.lineno, node.end_lineno or node.lineno)


def of_name(interpreter: Interpreter, fields: frozenset[str]) -> None:
    """The current line uses a class or a function that fields decided on."""
    trace = interpreter.trace
    trace.chosen(fields, trace.where.line, trace.where.line)


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
