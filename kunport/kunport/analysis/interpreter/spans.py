"""Loops over a range of sizes: over the tokens, or over the chunks that they are cut into."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kunport_codegen.expression import Scalar, symbol, symbols_of, unwrap
from kunport_codegen.graph import Node, Ref

from kunport.analysis.interpreter.loops import Rows, Run, Turn, emit_loop, rehearsed, run_block
from kunport.analysis.interpreter.operations import TURN
from kunport.analysis.interpreter.scope import Scope
from kunport.analysis.interpreter.signals import NotUnderstoodError, RaisedError
from kunport.analysis.shapes import TensorType
from kunport.analysis.shapes.dtypes import promote
from kunport.analysis.values import Span, Stacked, Tensor, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter


@dataclass(slots=True)
class _Grown:
    """A list that each turn appends one tensor to, and the tensor ``[turns, ...]`` that takes its place."""

    held: list[Value]
    names: list[str]
    buffer: Tensor


def over_span(interpreter: Interpreter, node: ast.For, span: Span, scope: Scope) -> bool:
    """``for number in range(size)`` as a loop node; whether that was possible. If not, nothing has changed.

    It is possible where every turn does the same. That is tried on the first turn and on the last one, and no turn
    may decide anything on its number.
    """
    if not span.numbers:
        return False
    trace, before = interpreter.trace, dict(scope.variables)
    made = len(trace.nodes)

    def turn(number: Value) -> None:
        interpreter.assign(node.target, number, scope)
        run_block(interpreter, node.body, scope)

    if isinstance(node.target, ast.Name) and not isinstance(before.get(node.target.id), Tensor):
        scope.variables.pop(node.target.id, None)  # a turn binds it first: what an earlier loop left in it is not read
    try:
        rows = interpreter.operator("arange", span.bounds, {})
        _widen(interpreter, rows, span, scope, turn)
        lists = _rehearse(interpreter, rows, span, scope, turn)
        emit_loop(interpreter, _numbered(rows, span.numbers[0]), scope, _storing(interpreter, turn, lists, span))
    except (NotUnderstoodError, RaisedError):
        del trace.nodes[made:]
        scope.variables = before
        return False
    for grown in lists:
        scope.variables.update(dict.fromkeys(grown.names, Stacked(grown.buffer)))
    return True


def _numbered(rows: Tensor, number: int) -> Rows:
    """Turns whose number is a symbol, ``number`` in the analysis."""
    return Rows(rows.id, lambda row: symbol(f"{TURN}{row}", number))


def _widen(interpreter: Interpreter, rows: Tensor, span: Span, scope: Scope, turn: Run) -> None:
    """Gives zeros that the first turn makes wider numbers of (a state in the model's dtype) the wider dtype at once."""
    with rehearsed(interpreter, _numbered(rows, span.numbers[0]), scope, turn):
        after = scope.variables
    zeros = {node.id for node in interpreter.trace.nodes if node.op in ("zeros", "zeros_like")}
    for name, start in list(scope.variables.items()):
        end = after.get(name)
        if not (isinstance(start, Tensor) and isinstance(end, Tensor) and start.id in zeros):
            continue
        wider = promote(start.type.dtype, end.type.dtype)
        if start.type.dtype != wider == end.type.dtype:
            scope.variables[name] = interpreter.operator("to", (start, wider), {})


def _rehearse(interpreter: Interpreter, rows: Tensor, span: Span, scope: Scope, turn: Run) -> list[_Grown]:
    """Tries the first and the last turn; gives the lists that they append to.

    Raises:
        NotUnderstoodError: the turns are not alike, or not understood, or change a list in another way.
    """
    lists = {id(held): held for held in scope.variables.values() if type(held) is list}
    before = {key: list(held) for key, held in lists.items()}
    texts, appended = [], {}
    for number in dict.fromkeys((span.numbers[0], span.numbers[-1])):
        with rehearsed(interpreter, _numbered(rows, number), scope, turn) as tried:
            texts.append(_text(tried))
            if any(each.op == "unknown" for each in tried.nodes):
                raise NotUnderstoodError("a turn that is not understood")
            appended = {key: list(held) for key, held in lists.items() if held != before[key]}
    if texts[0] != texts[-1]:
        raise NotUnderstoodError("turns that differ")
    return [_grown(interpreter, scope, span, lists[key], items) for key, items in appended.items()]


def _grown(interpreter: Interpreter, scope: Scope, span: Span, held: list[Value], items: list[Value]) -> _Grown:
    plain = unwrap(span.bounds[0]) == 0 and unwrap(span.bounds[2]) == 1
    if not plain or held or len(items) != 1 or not isinstance(items[0], Tensor) or _turns(items[0].type):
        raise NotUnderstoodError("a list that a loop changes")
    kind = items[0].type
    buffer = interpreter.operator("zeros", ((span.bounds[1], *kind.shape),), {"dtype": kind.dtype})
    return _Grown(held, [name for name, value in scope.variables.items() if value is held], buffer)


def _turns(kind: TensorType) -> bool:
    """Whether a shape depends on the number of a turn."""
    held = [size for size in kind.shape if isinstance(size, Scalar)]
    return any(name.startswith(TURN) for size in held for name in symbols_of(size.expr))


def _storing(interpreter: Interpreter, turn: Run, lists: list[_Grown], span: Span) -> Run:
    """A turn that writes what it would append to a list into the tensor that takes its place."""

    def run(number: Value) -> None:
        turn(number)
        for grown in lists:
            interpreter.write_item(grown.buffer, number, grown.held.pop())

    return run


_OWN = re.compile(r"\b(data_|turn_)(\d+)|%(\d+)")


def _text(turn: Turn) -> str:
    """What a turn does, with its own ids counted from its row."""

    def relative(found: re.Match[str]) -> str:
        number = int(found[2] or found[3])
        return found[0] if number < turn.row else f"{found[1] or '%'}+{number - turn.row}"

    return _OWN.sub(relative, "\n".join(_line(node) for node in turn.nodes))


def _line(node: Node) -> str:
    inner = [_line(each) for each in node.body.nodes] if node.body is not None else []
    return f"%{node.id} {node.op} {_plain(node.args)} {_plain(node.kwargs)} {inner}"


def _plain(value: Any) -> str:
    """An argument as text, scalars by their expression alone: their value is that of the turn."""
    match value:
        case Scalar():
            return str(value.expr)
        case tuple() | list():
            return f"[{', '.join(map(_plain, value))}]"
        case dict():
            return f"{{{', '.join(f'{key}: {_plain(each)}' for key, each in value.items())}}}"
        case slice():
            return f"{_plain(value.start)}:{_plain(value.stop)}:{_plain(value.step)}"
        case Ref():
            return f"%{value.id}"
        case _:
            return repr(value)
