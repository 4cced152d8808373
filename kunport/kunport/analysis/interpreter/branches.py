"""Branches that only the data decide."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kunport.analysis.interpreter.loops import Run, emit_loop, rehearsed, rows_of, run_block, sizes
from kunport.analysis.interpreter.operations import describe
from kunport.analysis.interpreter.scope import Scope
from kunport.analysis.interpreter.signals import NotUnderstoodError, RaisedError, Signal, Unless
from kunport.analysis.shapes import TensorType
from kunport.analysis.values import Tensor, Unknown, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

Block = Sequence[ast.stmt]

_LOGGERS = ("logger", "warnings", "logging")


def undecided(interpreter: Interpreter, node: ast.If, test: Value, scope: Scope) -> Signal | None:
    """An ``if`` whose condition is only known when the model runs.

    A check that raises or warns is passed over. ``continue`` in a data-dependent loop becomes the loop's ``skip``, in
    another one what follows becomes a branch.
    Branches that bind tensors become loops of one turn or none. Of other ones the names that they bind are unknown
    afterwards.

    Raises:
        NotUnderstoodError: a branch returns, leaves a loop or changes more than local names.
    """
    if not node.orelse and _only_complains(node.body):
        return None
    if not node.orelse and _is_continue(node.body) and isinstance(test, Tensor) and node in scope.turn:
        return Unless(test)
    if not node.orelse and _is_continue(node.body) and interpreter.turns and isinstance(test, Tensor):
        turn = interpreter.turns[-1]
        if turn.written or turn.skip is not None:
            raise NotUnderstoodError("a turn of a loop that is left half-way")
        turn.skip = test
        return None
    what = "the values of a tensor" if isinstance(test, Tensor) else describe(test)
    if leaves(node):
        raise NotUnderstoodError(f"a branch on {what}")
    if _reaches_out(node):
        raise NotUnderstoodError(f"a branch on {what} that changes more than local names")
    try:
        if isinstance(test, Tensor):
            _as_loops(interpreter, node, test, scope)
            return None
    except (NotUnderstoodError, RaisedError):
        pass
    for name in sorted(bound(node)):
        operands = [value for value in (test, scope.variables.get(name)) if isinstance(value, Tensor | Unknown)]
        reason = f"{name} is bound in a branch that only the data decide"
        scope.variables[name] = interpreter.unknown(reason, *operands)
    return None


def unless(interpreter: Interpreter, test: Tensor, block: Block, scope: Scope) -> None:
    """What follows ``if test: continue`` in a turn of a loop: a branch on the contrary of the test.

    Raises:
        NotUnderstoodError: what follows leaves the loop, or changes more than local names.
    """
    if not block:
        return
    rest = ast.If(ast.Constant(True), list(block), [], lineno=block[0].lineno)
    if leaves(rest) or _reaches_out(rest):
        raise NotUnderstoodError("a turn of a loop that is left half-way")
    _as_loops(interpreter, rest, interpreter.operator("logical_not", (test,), {}), scope)


def _as_loops(interpreter: Interpreter, node: ast.If, test: Tensor, scope: Scope) -> None:
    """Two loops over the rows of ``nonzero`` of the condition and of its contrary: one of them has a row.

    Raises:
        NotUnderstoodError: a branch binds what a loop cannot carry, or not the same as the other one.
    """
    if any(size != 1 for size in sizes(test.type)):
        raise NotUnderstoodError("a branch on a tensor of several elements")
    flat = interpreter.operator("reshape", (test, (1,)), {})
    cases: list[tuple[Value, Block]] = [(flat, node.body)]
    if node.orelse:
        cases.append((interpreter.operator("logical_not", (flat,), {}), node.orelse))
    rows = [(interpreter.operator("nonzero", (condition,), {}), block) for condition, block in cases]
    _declare(interpreter, rows, scope)
    for chosen, block in rows:
        emit_loop(interpreter, rows_of(chosen), scope, _turn(interpreter, block, scope))


def _turn(interpreter: Interpreter, block: Block, scope: Scope) -> Run:
    return lambda row: run_block(interpreter, block, scope)


def _declare(interpreter: Interpreter, rows: list[tuple[Tensor, Block]], scope: Scope) -> None:
    """Gives names that every branch binds, and that are new, a value to start from: the branch replaces it."""
    kinds: list[dict[str, TensorType]] = []
    for chosen, block in rows:
        with rehearsed(interpreter, rows_of(chosen), scope, _turn(interpreter, block, scope)):
            known = scope.variables
        new = {name: value for name, value in known.items() if name not in scope.variables}
        kinds.append({name: value.type for name, value in new.items() if isinstance(value, Tensor)})
    for name, kind in kinds[0].items():
        if len(kinds) == 2 and name in kinds[1] and sizes(kinds[1][name]) == sizes(kind):
            scope.variables[name] = interpreter.operator("zeros", (kind.shape,), {"dtype": kind.dtype})


def _only_complains(block: Block) -> bool:
    return all(isinstance(each, ast.Raise | ast.Pass | ast.Assert) or _is_log(each) for each in block)


def _is_log(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    holder = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    return isinstance(holder, ast.Name) and holder.id in _LOGGERS


def _is_continue(block: Block) -> bool:
    return [type(statement) for statement in block] == [ast.Continue]


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """What is below a statement, functions and classes that it defines aside."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield from _walk(child)


def _targets(node: ast.AST) -> list[ast.expr]:
    """What a statement binds, sets or deletes."""
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            return targets
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            return [target]
    return []


def leaves(node: ast.stmt) -> bool:
    return any(isinstance(each, ast.Return | ast.Break | ast.Continue) for each in _walk(node))


def _reaches_out(node: ast.stmt) -> bool:
    """Whether a statement may change an object: it sets an attribute, or calls something for its effect alone."""
    for each in _walk(node):
        if any(isinstance(target, ast.Attribute) for target in _targets(each)):
            return True
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call) and not _is_log(each):
            function = each.value.func
            if not (isinstance(function, ast.Attribute) and function.attr.endswith("_")):
                return True
    return False


def bound(node: ast.stmt) -> set[str]:
    """Local names that a statement may bind, and those whose tensors it may write into."""
    names: set[str] = set()
    for each in _walk(node):
        targets = [each.target] if isinstance(each, ast.For) else list(_targets(each))
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr.endswith("_"):
            targets.append(each.func.value)
        for target in targets:
            names |= _root_names(target)
    return names


def _root_names(target: ast.expr) -> set[str]:
    if isinstance(target, ast.Name):
        return {target.id}
    if isinstance(target, ast.Tuple | ast.List):
        return {name for element in target.elts for name in _root_names(element)}
    if isinstance(target, ast.Subscript | ast.Attribute | ast.Starred):
        return _root_names(target.value)
    return set()
