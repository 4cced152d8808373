"""Execution of statements, one function for each kind of node. None means: go on with the next."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kunport_codegen.expression import unwrap

from kunport.analysis.interpreter import branches, choices, contexts, loops, matching, operations, spans, turns
from kunport.analysis.interpreter.expressions import evaluate
from kunport.analysis.interpreter.scope import Scope
from kunport.analysis.interpreter.signals import (
    BREAK,
    CONTINUE,
    NotUnderstoodError,
    RaisedError,
    Return,
    Signal,
    Unless,
)
from kunport.analysis.intrinsics.registry import PACKAGES
from kunport.analysis.values import (
    MODULE,
    Instance,
    NativeClass,
    Opaque,
    SourceClass,
    Span,
    Tensor,
    Unknown,
    Value,
    is_subclass,
)

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

_TURNS = 10_000  # of a while loop, before it is taken to be endless


def execute(interpreter: Interpreter, node: ast.stmt, scope: Scope) -> Signal | None:
    """Runs a statement.

    Raises:
        NotUnderstoodError: it is of a kind, or meets values, that the analysis does not know.
        RaisedError: the source raises.
    """
    handler = _HANDLERS.get(type(node))
    if handler is None:
        raise NotUnderstoodError(f"a statement of kind {type(node).__name__}")
    interpreter.begin(node, scope)
    position = len(interpreter.trace.taken)
    signal = handler(interpreter, node, scope)
    if len(interpreter.trace.taken) > position and not isinstance(node, ast.If):
        choices.by_name(interpreter, node, position)
    return signal


def block(interpreter: Interpreter, nodes: Sequence[ast.stmt], scope: Scope) -> Signal | None:
    for position, node in enumerate(nodes):
        signal = execute(interpreter, node, scope)
        if isinstance(signal, Unless):
            branches.unless(interpreter, signal.test, nodes[position + 1 :], scope)
            return None
        if signal is not None:
            return signal
    return None


def _expression(interpreter: Interpreter, node: ast.Expr, scope: Scope) -> None:
    if not isinstance(node.value, ast.Constant | ast.JoinedStr):  # a docstring
        evaluate(interpreter, node.value, scope)


def _return(interpreter: Interpreter, node: ast.Return, scope: Scope) -> Signal:
    position = len(interpreter.trace.taken)
    value = None if node.value is None else evaluate(interpreter, node.value, scope)
    choices.hand(interpreter, value, position, scope)
    return Return(choices.labelled(value, scope.given))


def _nothing(interpreter: Interpreter, node: ast.Pass | ast.Assert, scope: Scope) -> None:
    """``pass``; and ``assert``, which only checks what the source takes for granted."""


def _break(interpreter: Interpreter, node: ast.Break, scope: Scope) -> Signal:
    return BREAK


def _continue(interpreter: Interpreter, node: ast.Continue, scope: Scope) -> Signal:
    return CONTINUE


def _outer(interpreter: Interpreter, node: ast.Global | ast.Nonlocal, scope: Scope) -> None:
    for name in node.names:
        target = scope.namespace.scope
        parent = scope.parent if isinstance(node, ast.Nonlocal) else None
        while parent is not None and name not in parent.variables:
            parent = parent.parent
        scope.outer[name] = parent or target


def _delete(interpreter: Interpreter, node: ast.Delete, scope: Scope) -> None:
    for target in node.targets:
        if isinstance(target, ast.Name):
            scope.variables.pop(target.id, None)
        elif isinstance(target, ast.Attribute):
            interpreter.delete_attribute(evaluate(interpreter, target.value, scope), target.attr)
        elif isinstance(target, ast.Subscript):
            interpreter.delete_item(
                evaluate(interpreter, target.value, scope), evaluate(interpreter, target.slice, scope)
            )


def _raise(interpreter: Interpreter, node: ast.Raise, scope: Scope) -> None:
    """The exception's arguments are messages: evaluating them is left to interpreters that report them."""
    raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    if raised is None:
        raise RaisedError("Exception")
    value = evaluate(interpreter, raised, scope)
    name = value.short if isinstance(value, NativeClass | SourceClass) else getattr(value, "name", "Exception")
    arguments = node.exc.args if isinstance(node.exc, ast.Call) else ()
    raise RaisedError(str(name).rpartition(".")[2], interpreter.message(arguments[0], scope) if arguments else "")


def _import(interpreter: Interpreter, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
    for name, imported in scope.namespace.imports(node):
        value = interpreter.names.resolve(imported.module, imported.name)
        if isinstance(value, Opaque) and value.name.partition(".")[0] not in PACKAGES and interpreter.catches:
            raise RaisedError("ModuleNotFoundError", f"No module named {imported.module}")
        interpreter.bind(name, value, scope)


def _function(interpreter: Interpreter, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:
    interpreter.bind(node.name, interpreter.make_function(node, scope), scope)


def _class(interpreter: Interpreter, node: ast.ClassDef, scope: Scope) -> None:
    interpreter.bind(node.name, interpreter.define_class(node, scope), scope)


def _assign(interpreter: Interpreter, node: ast.Assign, scope: Scope) -> None:
    position = len(interpreter.trace.taken)
    value = choices.labelled(evaluate(interpreter, node.value, scope), scope.given)
    for target in node.targets:
        choices.name(interpreter, target, value, position, scope)
        again = _outlives(interpreter, target, scope) and _reads(node.value, target)
        interpreter.assign(target, _counted(target, value) if again else value, scope)


def _reads(value: ast.expr, target: ast.expr) -> bool:
    """Whether an attribute or a name is set from what it was."""
    if not isinstance(target, ast.Attribute | ast.Name):
        return False
    text = ast.unparse(target)
    return any(isinstance(each, type(target)) and ast.unparse(each) == text for each in ast.walk(value))


def _counted(target: ast.expr, value: Value) -> Value:
    """What is left of a number that each run of the model sets from the one before."""
    if isinstance(unwrap(value), int | float):
        return Opaque(ast.unparse(target), "a number that each run of the model changes")
    return value


def _annotated(interpreter: Interpreter, node: ast.AnnAssign, scope: Scope) -> None:
    if node.value is not None:
        value = choices.labelled(evaluate(interpreter, node.value, scope), scope.given)
        interpreter.assign(node.target, value, scope)


def _augmented(interpreter: Interpreter, node: ast.AugAssign, scope: Scope) -> None:
    operator = type(node.op)
    # The target's own parts are evaluated once: the value, and for a subscript the object and its key.
    if isinstance(node.target, ast.Subscript):
        holder = evaluate(interpreter, node.target.value, scope)
        key = evaluate(interpreter, node.target.slice, scope)
        old = interpreter.item(holder, key)
        new = operations.binary(interpreter, operator, old, evaluate(interpreter, node.value, scope))
        interpreter.set_item(holder, key, new)
        return
    old = evaluate(interpreter, node.target, scope)
    operand = evaluate(interpreter, node.value, scope)
    if isinstance(old, list) and operator is ast.Add:
        old.extend(interpreter.iterate(operand))
        return
    new = choices.labelled(operations.binary(interpreter, operator, old, operand), scope.given)
    if isinstance(old, Tensor):
        interpreter.write(old, new)
        return
    outlives = _outlives(interpreter, node.target, scope)
    interpreter.assign(node.target, _counted(node.target, new) if outlives else new, scope)


def _outlives(interpreter: Interpreter, target: ast.expr, scope: Scope) -> bool:
    """Whether the next run of the model finds what this one leaves: in a module, or in a name of the file."""
    if interpreter.constructing:
        return False
    if isinstance(target, ast.Attribute):
        holder = evaluate(interpreter, target.value, scope)
        lasting = isinstance(holder, Instance) and is_subclass(holder.cls, MODULE)
        return isinstance(holder, SourceClass) or (lasting and (holder, target.attr) not in interpreter.fresh)
    return isinstance(target, ast.Name) and target.id in scope.outer and scope.outer[target.id].top


def _if(interpreter: Interpreter, node: ast.If, scope: Scope) -> Signal | None:
    position = len(interpreter.trace.taken)
    test = evaluate(interpreter, node.test, scope)
    if isinstance(test, Tensor | Unknown | Opaque):
        return branches.undecided(interpreter, node, test, scope)
    outcome = interpreter.truth(test)
    taken, other = (node.body, node.orelse) if outcome else (node.orelse, node.body)
    fields = interpreter.trace.picking(position)
    if not fields:
        return block(interpreter, taken, scope)
    choices.branch(interpreter, node, outcome, position, scope)
    outer, scope.given = scope.given, scope.given | fields
    signal = block(interpreter, taken, scope)
    if not any(map(branches.leaves, other)):
        scope.given = outer
    choices.left_out(other, fields, scope)
    return signal


def _match(interpreter: Interpreter, node: ast.Match, scope: Scope) -> Signal | None:
    return block(interpreter, matching.as_branches(node), scope)


def _for(interpreter: Interpreter, node: ast.For, scope: Scope) -> Signal | None:
    position, counted = len(interpreter.trace.taken), len(interpreter.trace.counts)
    values = evaluate(interpreter, node.iter, scope)
    if isinstance(values, Tensor) and interpreter.depends_on_data(values):
        loops.over_rows(interpreter, node, values, scope)
        return None
    if isinstance(values, Span) and spans.over_span(interpreter, node, values, scope):
        return None
    outer, fields = scope.turn, interpreter.trace.picking(position)
    choices.loop(interpreter, node, values, fields, counted)
    try:
        for value in interpreter.iterate(values):
            interpreter.assign(node.target, choices.labelled(value, fields), scope)
            scope.turn = node.body
            with turns.as_layer(interpreter, value, scope):
                signal = block(interpreter, node.body, scope)
            if signal is BREAK:
                return None
            if isinstance(signal, Return):
                return signal
    finally:
        scope.turn = outer
    return block(interpreter, node.orelse, scope)


def _while(interpreter: Interpreter, node: ast.While, scope: Scope) -> Signal | None:
    for _ in range(_TURNS):
        if not interpreter.truth(evaluate(interpreter, node.test, scope)):
            return block(interpreter, node.orelse, scope)
        signal = block(interpreter, node.body, scope)
        if signal is BREAK:
            return None
        if isinstance(signal, Return):
            return signal
    raise NotUnderstoodError(f"a while loop of more than {_TURNS} turns")


def _with(interpreter: Interpreter, node: ast.With, scope: Scope) -> Signal | None:
    leaving = [contexts.enter(interpreter, item, scope) for item in node.items]
    signal = block(interpreter, node.body, scope)
    for leave in reversed(leaving):
        leave()
    return signal


def _try(interpreter: Interpreter, node: ast.Try, scope: Scope) -> Signal | None:
    signal = None
    try:
        with interpreter.handling():
            signal = block(interpreter, node.body, scope)
    except RaisedError as raised:
        handler = next((each for each in node.handlers if _catches(each, raised)), None)
        if handler is None:
            raise
        if handler.name is not None:
            interpreter.bind(handler.name, raised.message, scope)
        signal = block(interpreter, handler.body, scope)
    else:
        if signal is None:
            signal = block(interpreter, node.orelse, scope)
    return block(interpreter, node.finalbody, scope) or signal


# Exceptions that a handler of a base class catches.
_BASES = {"ModuleNotFoundError": "ImportError", "KeyError": "LookupError", "IndexError": "LookupError"}


def _catches(handler: ast.ExceptHandler, raised: RaisedError) -> bool:
    if handler.type is None:
        return True
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {ast.unparse(each) for each in caught}
    return bool(names & {raised.name, _BASES.get(raised.name), "Exception", "BaseException"})


_HANDLERS: dict[type[ast.stmt], Callable[[Interpreter, Any, Scope], Signal | None]] = {
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Return: _return,
    ast.If: _if,
    ast.Match: _match,
    ast.For: _for,
    ast.While: _while,
    ast.With: _with,
    ast.Try: _try,
    ast.Raise: _raise,
    ast.Pass: _nothing,
    ast.Assert: _nothing,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.Global: _outer,
    ast.Nonlocal: _outer,
    ast.Delete: _delete,
    ast.Import: _import,
    ast.ImportFrom: _import,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
}
