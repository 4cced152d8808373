"""Loops whose turns only the data or the sizes tell: one symbolic turn, in a ``loop`` node."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import Body, Node, Ref

from kunport.analysis.interpreter.scope import Scope
from kunport.analysis.interpreter.signals import CONTINUE, NotUnderstoodError
from kunport.analysis.shapes import TensorType
from kunport.analysis.values import Opaque, Tensor, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

Run = Callable[[Value], None]


@dataclass(frozen=True, slots=True)
class Rows:
    """What a loop goes over: the node of a tensor, and what a row is to the source, given the id that stands for it."""

    node: int
    row: Callable[[int], Value]


def rows_of(values: Tensor) -> Rows:
    kind = TensorType(values.type.shape[1:], values.type.dtype)
    return Rows(values.id, lambda row: Tensor(row, kind))


@dataclass(slots=True)
class Turn:
    """One symbolic turn.

    Attributes:
        row: the id that stands for the row; what is older existed before the turn.
        written: the cells that existed before and were replaced in the turn, with their node before.
        skip: the condition under which the source goes on with the next turn at once.
        nodes: what the turn made.
    """

    row: int
    written: dict[Tensor, int] = field(default_factory=dict)
    skip: Tensor | None = None
    nodes: list[Node] = field(default_factory=list)


def over_rows(interpreter: Interpreter, node: ast.For, values: Tensor, scope: Scope) -> None:
    """``for row in tensor`` where only the data tell how many rows there are.

    Raises:
        NotUnderstoodError: the body leaves the loop, or replaces what is not a tensor.
    """

    def turn(row: Tensor) -> None:
        interpreter.assign(node.target, row, scope)
        run_block(interpreter, node.body, scope)

    emit_loop(interpreter, rows_of(values), scope, turn)


def run_block(interpreter: Interpreter, statements: Sequence[ast.stmt], scope: Scope) -> None:
    """Runs the statements of a turn.

    Raises:
        NotUnderstoodError: they leave the loop.
    """
    for statement in statements:
        signal = interpreter.execute(statement, scope)
        if signal is CONTINUE:
            return
        if signal is not None:
            raise NotUnderstoodError("a loop over the rows of a tensor that ends early")


def emit_loop(interpreter: Interpreter, rows: Rows, scope: Scope, run: Run) -> None:
    """A loop node over rows. What ``run`` replaces is carried from turn to turn.

    It runs twice: once to learn what it replaces, and once with fresh ids in the place of that.

    Raises:
        NotUnderstoodError: ``run`` fails, or replaces what a loop cannot carry. Nothing is changed then.
    """
    before = dict(scope.variables)
    with rehearsed(interpreter, rows, scope, run) as turn:
        cells = list(turn.written)
        # What an earlier loop has left behind is no value that this one could start from.
        held = {name: value for name, value in before.items() if not isinstance(value, Opaque)}
        names = [name for name, value in held.items() if scope.variables.get(name) is not value]
        if unsound := [name for name in names if not _same_type(before[name], scope.variables.get(name))]:
            raise NotUnderstoodError(f"a loop over the rows of a tensor that changes {', '.join(unsound)}")
    starts = [cell.id for cell in cells] + [before[name].id for name in names]
    inner = [interpreter.trace.new_id() for _ in starts]
    for cell, fresh in zip(cells, inner, strict=False):
        _put(cell, fresh)
    for name, fresh in zip(names, inner[len(cells) :], strict=True):
        scope.variables[name] = Tensor(fresh, before[name].type)
    turn = Turn(-1)
    _run_turn(interpreter, rows, run, turn)
    ends = [cell.id for cell in cells] + [scope.variables[name].id for name in names]
    carried = [(each, Ref(start), Ref(end)) for each, start, end in zip(inner, starts, ends, strict=True)]
    skip = Ref(turn.skip.id) if turn.skip is not None else None
    loop = interpreter.trace.emit("loop", (Ref(rows.node),), body=Body(turn.row, turn.nodes, carried, skip))

    def result(position: int, kind: TensorType) -> int:
        return interpreter.trace.emit("item", (Ref(loop.id), position), kind=kind).id

    new = {name: Opaque(name, "only bound inside a loop over data") for name in scope.variables if name not in before}
    scope.variables = new | before
    for position, cell in enumerate(cells):
        _put(cell, result(position, cell.type))
    for position, name in enumerate(names, len(cells)):
        scope.variables[name] = Tensor(result(position, before[name].type), before[name].type)


@contextmanager
def rehearsed(interpreter: Interpreter, rows: Rows, scope: Scope, run: Run) -> Iterator[Turn]:
    """A turn as if it had been run; afterwards, and if it fails, everything is as before."""
    before = dict(scope.variables)
    lists = [(held, list(held)) for held in before.values() if type(held) is list]
    turn = Turn(-1)
    try:
        _run_turn(interpreter, rows, run, turn)
        yield turn
    finally:
        scope.variables = before
        for held, items in lists:
            held[:] = items
        for cell, node in turn.written.items():
            _put(cell, node)


def _run_turn(interpreter: Interpreter, rows: Rows, run: Run, turn: Turn) -> None:
    turn.row = interpreter.trace.new_id()
    interpreter.turns.append(turn)
    try:
        with interpreter.trace.collected() as turn.nodes:
            run(rows.row(turn.row))
    finally:
        interpreter.turns.pop()


def _same_type(before: Value, after: Value) -> bool:
    if not (isinstance(before, Tensor) and isinstance(after, Tensor)):
        return False
    return before.type.dtype == after.type.dtype and sizes(before.type) == sizes(after.type)


def sizes(kind: TensorType) -> list[int]:
    """A shape as the numbers that it has in the analysis."""
    return [unwrap(size) for size in kind.shape]


def _put(cell: Tensor, node: int) -> None:
    """Another value for a cell; its views are cut again."""
    cell.id = node
    cell.version += 1
