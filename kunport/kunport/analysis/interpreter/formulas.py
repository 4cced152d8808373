"""Formulas of einsum that are one product of matrices are written as that product, which everything else knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kunport.analysis.values import Tensor, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter


def as_matmul(interpreter: Interpreter, args: tuple[Value, ...]) -> Value | None:
    """``matmul`` with the transpositions that the formula asks for; None for a formula that is something else.

    Of its letters exactly one is summed over, one is only the left tensor's, one only the right one's, and all others
    are of both and of the result.
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
    if not shared or not len(rows) == len(columns) == len(summed) == 1 or set(result) != {*shared, *rows, *columns}:
        return None
    batch, row, column, inner = "".join(shared), rows.pop(), columns.pop(), summed.pop()
    one = _arranged(interpreter, left, first, batch + row + inner)
    # The usual second operand is the transposed of one that is kept by rows: `query @ key.transpose(-2, -1)`.
    by_rows = second.index(column) < second.index(inner)
    other = _arranged(interpreter, right, second, batch + (column + inner if by_rows else inner + column))
    if by_rows:
        other = interpreter.operator("transpose", (other, -2, -1), {})
    product = interpreter.operator("matmul", (one, other), {})
    return _arranged(interpreter, product, batch + row + column, result)


def _arranged(interpreter: Interpreter, tensor: Value, have: str, want: str) -> Value:
    """The tensor with its dimensions in another order."""
    moved = [place for place in range(len(have)) if have[place] != want[place]]
    if not moved:
        return tensor
    if len(moved) == 2:
        return interpreter.operator("transpose", (tensor, *moved), {})
    return interpreter.operator("permute", (tensor, tuple(have.index(letter) for letter in want)), {})
