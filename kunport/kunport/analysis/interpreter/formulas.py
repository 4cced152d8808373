"""Formulas of einsum that are one product of matrices are written as that product, which everything else knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kunport.analysis.interpreter.containers import product
from kunport.analysis.values import Tensor, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter


def as_matmul(interpreter: Interpreter, args: tuple[Value, ...]) -> Value | None:
    """``matmul`` with the transpositions that the formula asks for; None for a formula that is something else.

    Of its letters exactly one is summed over, one is only the left tensor's, one only the right one's, and all others
    are of both and of the result. One more may be only the left tensor's: the heads that share the right one's, all of
    them or, where it follows the heads of both, a group of them.
    """
    if len(args) != 3 or not isinstance(args[0], str):
        return None
    formula, left, right = args
    operands, arrow, result = formula.replace(" ", "").partition("->")
    first, comma, second = operands.partition(",")
    if not (arrow and comma and (first + second + result).isalpha()):
        return None
    if not isinstance(left, Tensor) or not isinstance(right, Tensor):
        return None
    if len(first) != len(left.type.shape) or len(second) != len(right.type.shape):
        return None
    if any(len(set(letters)) != len(letters) for letters in (first, second, result)):
        return None
    shared = [letter for letter in result if letter in first and letter in second]
    rows, columns = set(first) - set(second), set(second) - set(first)
    summed = set(first) & set(second) - set(result)
    lone = [letter for letter in result if letter in rows][:-1]  # the last one is the rows of the product
    if not shared or len(lone) > 1 or not len(rows) - len(lone) == len(columns) == len(summed) == 1:
        return None
    if set(result) != {*shared, *rows, *columns}:
        return None
    batch, column, inner = "".join(each for each in result if each in (*shared, *lone)), columns.pop(), summed.pop()
    (row,) = rows - {*lone}
    one = _arranged(interpreter, left, first, batch + row + inner)
    # The usual second operand is the transposed of one that is kept by rows: `query @ key.transpose(-2, -1)`.
    by_rows = second.index(column) < second.index(inner)
    tail = column + inner if by_rows else inner + column
    other = _arranged(interpreter, right, second, "".join(shared) + tail)
    grouped = len(batch) == 3 and bool(lone) and batch[-1] == lone[0]
    if grouped:
        outer, heads, group, *rest = one.type.shape
        one = interpreter.operator("reshape", (one, (outer, product((heads, group)), *rest)), {})
        other = interpreter.operator("repeat_interleave", (other, group), {"dim": 1})
    elif lone:
        other = interpreter.operator("unsqueeze", (other, batch.index(lone[0])), {})
    if by_rows:
        other = interpreter.operator("transpose", (other, -2, -1), {})
    made = interpreter.operator("matmul", (one, other), {})
    if grouped:
        made = interpreter.operator("reshape", (made, (outer, heads, group, *made.type.shape[-2:])), {})
    return _arranged(interpreter, made, batch + row + column, result)


def _arranged(interpreter: Interpreter, tensor: Value, have: str, want: str) -> Value:
    """The tensor with its dimensions in another order."""
    moved = [place for place in range(len(have)) if have[place] != want[place]]
    if not moved:
        return tensor
    if len(moved) == 2:
        return interpreter.operator("transpose", (tensor, *moved), {})
    return interpreter.operator("permute", (tensor, tuple(have.index(letter) for letter in want)), {})
