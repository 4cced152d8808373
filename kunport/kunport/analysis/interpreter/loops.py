"""Control flow that depends on the values of tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst
from kunport_codegen.graph import Body, Ref

from kunport.analysis.interpreter.operations import describe
from kunport.analysis.interpreter.scope import Scope
from kunport.analysis.interpreter.signals import CONTINUE, NotUnderstoodError, Signal
from kunport.analysis.shapes import TensorType
from kunport.analysis.values import Tensor, Unknown, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter


@dataclass(slots=True)
class Turn:
    """One symbolic turn of a data-dependent loop.

    ``written`` are the cells that existed before the turn and were replaced in it, with their node before; ``skip`` is
    the condition under which the source goes on with the next turn at once.
    """

    first: int
    written: dict[Tensor, int] = field(default_factory=dict)
    skip: Tensor | None = None


def over_rows(interpreter: Interpreter, node: cst.For, values: Tensor, scope: Scope) -> None:
    """``for row in tensor`` where only the data tell how many rows there are: a ``loop`` node.

    The body is run twice: once to learn which values it replaces, and once with fresh ids in their place.

    Raises:
        NotUnderstoodError: the body leaves the loop, or replaces what is not a tensor.
    """
    before = dict(scope.variables)
    with interpreter.trace.collected():
        turn, _, after = _turn(interpreter, node, values, scope)
    cells = list(turn.written)
    names = [name for name, value in before.items() if after.get(name) is not value]
    if unsound := [
        name for name in names if not isinstance(before[name], Tensor) or not isinstance(after[name], Tensor)
    ]:
        raise NotUnderstoodError(f"a loop over the rows of a tensor that changes {', '.join(unsound)}")
    for cell, old in turn.written.items():
        _put(cell, old)
    scope.variables = dict(before)

    carried = cells + [before[name] for name in names]
    starts = [cell.id for cell in carried]
    inner = [interpreter.trace.new_id() for _ in carried]
    for cell, fresh in zip(cells, inner, strict=False):
        _put(cell, fresh)
    for name, fresh in zip(names, inner[len(cells) :], strict=True):
        scope.variables[name] = Tensor(fresh, before[name].type)
    with interpreter.trace.collected() as nodes:
        turn, variable, after = _turn(interpreter, node, values, scope)
    ends = [cell.id for cell in cells] + [after[name].id for name in names]
    skip = Ref(turn.skip.id) if turn.skip is not None else None
    triples = [(each, Ref(start), Ref(end)) for each, start, end in zip(inner, starts, ends, strict=True)]
    loop = interpreter.trace.emit("loop", (Ref(values.id),), body=Body(variable, nodes, triples, skip))
    scope.variables = dict(before)
    for position, cell in enumerate(carried):
        item = interpreter.trace.emit("item", (Ref(loop.id), position), kind=cell.type)
        if position < len(cells):
            _put(cell, item.id)
        else:
            scope.variables[names[position - len(cells)]] = Tensor(item.id, cell.type)


def _put(cell: Tensor, node: int) -> None:
    """Another value for a cell; its views are cut again."""
    cell.id = node
    cell.version += 1


def _turn(interpreter: Interpreter, node: cst.For, values: Tensor, scope: Scope) -> tuple[Turn, int, dict[str, Value]]:
    """Runs the body once on a symbolic row; gives the turn, the row's id and the variables afterwards."""
    turn = Turn(interpreter.trace.new_id())
    row = Tensor(turn.first, TensorType(values.type.shape[1:], values.type.dtype))
    interpreter.assign(node.target, row, scope)
    interpreter.turns.append(turn)
    try:
        for statement in node.body.body:
            signal = interpreter.execute(statement, scope)
            if signal is CONTINUE:
                break
            if signal is not None:
                raise NotUnderstoodError("a loop over the rows of a tensor that ends early")
    finally:
        interpreter.turns.pop()
    return turn, turn.first, dict(scope.variables)


def undecided(interpreter: Interpreter, node: cst.If, test: Value, scope: Scope) -> Signal | None:
    """An ``if`` whose condition is only known when the model runs.

    A check that raises or warns is passed over; ``continue`` in a data-dependent loop becomes the loop's
    ``skip``; of any other, the variables that its branches bind are unknown afterwards.

    Raises:
        NotUnderstoodError: a branch returns or leaves a loop.
    """
    if node.orelse is None and _only_complains(node.body):
        return None
    if _is_continue(node.body) and node.orelse is None and interpreter.turns and isinstance(test, Tensor):
        turn = interpreter.turns[-1]
        if turn.written or turn.skip is not None:
            raise NotUnderstoodError("a turn of a loop that is left half-way")
        turn.skip = test
        return None
    if _leaves(node):
        raise NotUnderstoodError(
            f"a branch on {describe(test) if not isinstance(test, Tensor) else 'the values of a tensor'}"
        )
    reason = "bound in a branch that is only decided when the model runs"
    for name in sorted(_bound(node)):
        old = scope.variables.get(name)
        operands = [value for value in (test, old) if isinstance(value, Tensor | Unknown)]
        scope.variables[name] = interpreter.unknown(f"{name} is {reason}", *operands)
    return None


def _statements(suite: cst.BaseSuite) -> list[cst.CSTNode]:
    flat: list[cst.CSTNode] = []
    for statement in suite.body:
        flat.extend(statement.body if isinstance(statement, cst.SimpleStatementLine) else [statement])
    return flat


def _only_complains(suite: cst.BaseSuite) -> bool:
    for statement in _statements(suite):
        if isinstance(statement, cst.Raise | cst.Pass):
            continue
        call = statement.value if isinstance(statement, cst.Expr) else None
        if not (isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute)):
            return False
        if not (isinstance(call.func.value, cst.Name) and call.func.value.value in ("logger", "warnings", "logging")):
            return False
    return True


def _is_continue(suite: cst.BaseSuite) -> bool:
    return [type(statement) for statement in _statements(suite)] == [cst.Continue]


def _walk(node: cst.CSTNode) -> list[cst.CSTNode]:
    found = [node]
    for child in node.children:
        if not isinstance(child, cst.FunctionDef | cst.Lambda | cst.ClassDef):
            found.extend(_walk(child))
    return found


def _leaves(node: cst.CSTNode) -> bool:
    return any(isinstance(each, cst.Return | cst.Break | cst.Continue) for each in _walk(node))


def _bound(node: cst.CSTNode) -> set[str]:
    """Local names that a statement may bind, and those whose tensors it may write into."""
    names: set[str] = set()
    for each in _walk(node):
        targets: list[cst.BaseExpression] = []
        targets += [each.target] if isinstance(each, cst.AssignTarget | cst.AnnAssign | cst.AugAssign | cst.For) else []
        if isinstance(each, cst.Call) and isinstance(each.func, cst.Attribute) and each.func.attr.value.endswith("_"):
            targets.append(each.func.value)
        for target in targets:
            names |= _root_names(target)
    return names


def _root_names(target: cst.BaseExpression) -> set[str]:
    if isinstance(target, cst.Name):
        return {target.value}
    if isinstance(target, cst.Tuple | cst.List):
        return {name for element in target.elements for name in _root_names(element.value)}
    if isinstance(target, cst.Subscript | cst.Attribute):
        return _root_names(target.value) - {"self"}
    return set()
