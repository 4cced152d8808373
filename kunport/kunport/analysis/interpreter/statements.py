"""Execution of statements, one function for each kind of LibCST node. None means: go on with the next."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import libcst as cst
from libcst.helpers import get_full_name_for_node

from kunport.analysis.interpreter import branches, loops, operations, spans
from kunport.analysis.interpreter.expressions import evaluate, index
from kunport.analysis.interpreter.scope import Scope
from kunport.analysis.interpreter.signals import BREAK, CONTINUE, NotUnderstoodError, RaisedError, Return, Signal
from kunport.analysis.intrinsics.registry import PACKAGES
from kunport.analysis.values import NativeClass, Opaque, SourceClass, Span, Tensor, Unknown

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

_TURNS = 10_000  # of a while loop, before it is taken to be endless


def execute(interpreter: Interpreter, node: cst.CSTNode, scope: Scope) -> Signal | None:
    """Runs a statement.

    Raises:
        NotUnderstoodError: it is of a kind, or meets values, that the analysis does not know.
        RaisedError: the source raises.
    """
    handler = _HANDLERS.get(type(node))
    if handler is None:
        raise NotUnderstoodError(f"a statement of kind {type(node).__name__}")
    interpreter.begin(node, scope)
    return handler(interpreter, node, scope)


def block(interpreter: Interpreter, nodes: Sequence[cst.CSTNode], scope: Scope) -> Signal | None:
    for node in nodes:
        if (signal := execute(interpreter, node, scope)) is not None:
            return signal
    return None


def _line(interpreter: Interpreter, node: cst.SimpleStatementLine, scope: Scope) -> Signal | None:
    return block(interpreter, node.body, scope)


def _expression(interpreter: Interpreter, node: cst.Expr, scope: Scope) -> None:
    if not isinstance(node.value, cst.BaseString):  # a docstring
        evaluate(interpreter, node.value, scope)


def _return(interpreter: Interpreter, node: cst.Return, scope: Scope) -> Signal:
    return Return(None if node.value is None else evaluate(interpreter, node.value, scope))


def _nothing(interpreter: Interpreter, node: cst.CSTNode, scope: Scope) -> None:
    """``pass``; and ``assert``, which only checks what the source takes for granted."""


def _break(interpreter: Interpreter, node: cst.Break, scope: Scope) -> Signal:
    return BREAK


def _continue(interpreter: Interpreter, node: cst.Continue, scope: Scope) -> Signal:
    return CONTINUE


def _outer(interpreter: Interpreter, node: cst.Global | cst.Nonlocal, scope: Scope) -> None:
    for item in node.names:
        name = item.name.value
        target = scope.namespace.scope
        parent = scope.parent if isinstance(node, cst.Nonlocal) else None
        while parent is not None and name not in parent.variables:
            parent = parent.parent
        scope.outer[name] = parent or target


def _delete(interpreter: Interpreter, node: cst.Del, scope: Scope) -> None:
    targets = (
        [element.value for element in node.target.elements] if isinstance(node.target, cst.Tuple) else [node.target]
    )
    for target in targets:
        if isinstance(target, cst.Name):
            scope.variables.pop(target.value, None)
        elif isinstance(target, cst.Attribute):
            interpreter.delete_attribute(evaluate(interpreter, target.value, scope), target.attr.value)
        elif isinstance(target, cst.Subscript):
            interpreter.delete_item(evaluate(interpreter, target.value, scope), index(interpreter, target, scope))


def _raise(interpreter: Interpreter, node: cst.Raise, scope: Scope) -> None:
    """The exception's arguments are messages: evaluating them is left to interpreters that report them."""
    raised = node.exc.func if isinstance(node.exc, cst.Call) else node.exc
    if raised is None:
        raise RaisedError("Exception")
    value = evaluate(interpreter, raised, scope)
    name = value.short if isinstance(value, NativeClass | SourceClass) else getattr(value, "name", "Exception")
    arguments = node.exc.args if isinstance(node.exc, cst.Call) else ()
    raise RaisedError(str(name).rpartition(".")[2], interpreter.message(arguments[0].value, scope) if arguments else "")


def _import(interpreter: Interpreter, node: cst.Import | cst.ImportFrom, scope: Scope) -> None:
    statement = scope.namespace.file.positions.syntax[node]
    assert isinstance(statement, ast.Import | ast.ImportFrom)
    for name, imported in scope.namespace.imports(statement):
        value = interpreter.names.resolve(imported.module, imported.name)
        if isinstance(value, Opaque) and value.name.partition(".")[0] not in PACKAGES and interpreter.catches:
            raise RaisedError("ModuleNotFoundError", f"No module named {imported.module}")
        interpreter.bind(name, value, scope)


def _function(interpreter: Interpreter, node: cst.FunctionDef, scope: Scope) -> None:
    interpreter.bind(node.name.value, interpreter.make_function(node, scope), scope)


def _class(interpreter: Interpreter, node: cst.ClassDef, scope: Scope) -> None:
    syntax = scope.namespace.file.positions.syntax[node]
    assert isinstance(syntax, ast.ClassDef)
    interpreter.bind(node.name.value, interpreter.define_class(syntax, scope), scope)


def _assign(interpreter: Interpreter, node: cst.Assign, scope: Scope) -> None:
    value = evaluate(interpreter, node.value, scope)
    for target in node.targets:
        interpreter.assign(target.target, value, scope)


def _annotated(interpreter: Interpreter, node: cst.AnnAssign, scope: Scope) -> None:
    if node.value is not None:
        interpreter.assign(node.target, evaluate(interpreter, node.value, scope), scope)


def _augmented(interpreter: Interpreter, node: cst.AugAssign, scope: Scope) -> None:
    operator = operations.AUGMENTED[type(node.operator)]
    # The target's own parts are evaluated once: the value, and for a subscript the object and its key.
    if isinstance(node.target, cst.Subscript):
        holder, key = evaluate(interpreter, node.target.value, scope), index(interpreter, node.target, scope)
        old = interpreter.item(holder, key)
        new = operations.binary(interpreter, operator, old, evaluate(interpreter, node.value, scope))
        interpreter.set_item(holder, key, new)
        return
    old = evaluate(interpreter, node.target, scope)
    operand = evaluate(interpreter, node.value, scope)
    if isinstance(old, list) and operator is cst.Add:
        old.extend(interpreter.iterate(operand))
        return
    new = operations.binary(interpreter, operator, old, operand)
    if isinstance(old, Tensor):
        interpreter.write(old, new)
    else:
        interpreter.assign(node.target, new, scope)


def _if(interpreter: Interpreter, node: cst.If, scope: Scope) -> Signal | None:
    test = evaluate(interpreter, node.test, scope)
    if isinstance(test, Tensor | Unknown | Opaque):
        return branches.undecided(interpreter, node, test, scope)
    if interpreter.truth(test):
        return block(interpreter, node.body.body, scope)
    if isinstance(node.orelse, cst.If):
        return execute(interpreter, node.orelse, scope)
    return block(interpreter, node.orelse.body.body, scope) if node.orelse is not None else None


def _for(interpreter: Interpreter, node: cst.For, scope: Scope) -> Signal | None:
    values = evaluate(interpreter, node.iter, scope)
    if isinstance(values, Tensor) and interpreter.depends_on_data(values):
        loops.over_rows(interpreter, node, values, scope)
        return None
    if isinstance(values, Span) and spans.over_span(interpreter, node, values, scope):
        return None
    for value in interpreter.iterate(values):
        interpreter.assign(node.target, value, scope)
        signal = block(interpreter, node.body.body, scope)
        if signal is BREAK:
            return None
        if isinstance(signal, Return):
            return signal
    return block(interpreter, node.orelse.body.body, scope) if node.orelse is not None else None


def _while(interpreter: Interpreter, node: cst.While, scope: Scope) -> Signal | None:
    for _ in range(_TURNS):
        if not interpreter.truth(evaluate(interpreter, node.test, scope)):
            return None
        signal = block(interpreter, node.body.body, scope)
        if signal is BREAK:
            return None
        if isinstance(signal, Return):
            return signal
    raise NotUnderstoodError(f"a while loop of more than {_TURNS} turns")


def _with(interpreter: Interpreter, node: cst.With, scope: Scope) -> Signal | None:
    """Context managers set modes (no gradients, autocast off) that leave a forward pass as it is."""
    for item in node.items:
        value = evaluate(interpreter, item.item, scope)
        if item.asname is not None:
            interpreter.assign(item.asname.name, value, scope)
    return block(interpreter, node.body.body, scope)


def _try(interpreter: Interpreter, node: cst.Try, scope: Scope) -> Signal | None:
    signal = None
    try:
        with interpreter.handling():
            signal = block(interpreter, node.body.body, scope)
    except RaisedError as raised:
        handler = next((each for each in node.handlers if _catches(each, raised)), None)
        if handler is None:
            raise
        if handler.name is not None:
            interpreter.assign(handler.name.name, raised.message, scope)
        signal = block(interpreter, handler.body.body, scope)
    else:
        if signal is None and node.orelse is not None:
            signal = block(interpreter, node.orelse.body.body, scope)
    if node.finalbody is not None:
        signal = block(interpreter, node.finalbody.body.body, scope) or signal
    return signal


# Exceptions that a handler of a base class catches.
_BASES = {"ModuleNotFoundError": "ImportError", "KeyError": "LookupError", "IndexError": "LookupError"}


def _catches(handler: cst.ExceptHandler, raised: RaisedError) -> bool:
    if handler.type is None:
        return True
    caught = [each.value for each in handler.type.elements] if isinstance(handler.type, cst.Tuple) else [handler.type]
    names = {get_full_name_for_node(each) for each in caught}
    return bool(names & {raised.name, _BASES.get(raised.name), "Exception", "BaseException"})


_HANDLERS: dict[type[cst.CSTNode], Callable[[Interpreter, Any, Scope], Signal | None]] = {
    cst.SimpleStatementLine: _line,
    cst.Expr: _expression,
    cst.Assign: _assign,
    cst.AnnAssign: _annotated,
    cst.AugAssign: _augmented,
    cst.Return: _return,
    cst.If: _if,
    cst.For: _for,
    cst.While: _while,
    cst.With: _with,
    cst.Try: _try,
    cst.Raise: _raise,
    cst.Pass: _nothing,
    cst.Assert: _nothing,
    cst.Break: _break,
    cst.Continue: _continue,
    cst.Global: _outer,
    cst.Nonlocal: _outer,
    cst.Del: _delete,
    cst.Import: _import,
    cst.ImportFrom: _import,
    cst.FunctionDef: _function,
    cst.ClassDef: _class,
}
