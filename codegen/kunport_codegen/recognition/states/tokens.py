"""Tensors with a value for each token, by their shapes."""

from __future__ import annotations

from functools import cache, partial
from itertools import product
from typing import Any

from kunport_codegen.expression import Expr, Scalar, evaluate, symbols_of
from kunport_codegen.graph import Node

_SEQUENCE, _BATCH = Expr("symbol", ("sequence",)), Expr("symbol", ("batch",))


def is_sequence(size: Any) -> bool:
    """Whether a size is the number of tokens of a sequence."""
    return isinstance(size, Scalar) and counts_tokens(size.expr)


@cache
def counts_tokens(expr: Expr) -> bool:
    """Whether an expression is the length of a sequence, of whatever length and whatever the configuration says.

    ``min(sequence, 64 * ceil(sequence / 64))`` is, which a source comes to that fills its last chunk and cuts it again.
    """
    if expr == _SEQUENCE:
        return True
    if symbols_of(expr) != {"sequence"}:
        return False
    for length, field in product((1, 2, 11, 63, 64, 65, 300), (1, 3, 4, 64, 256)):
        try:
            value = evaluate(expr, partial(_any_field, field), {"sequence": length})
        except (TypeError, ValueError, ArithmeticError, LookupError):
            return False
        if value != length:
            return False
    return True


def _any_field(value: int, path: str) -> int:
    return value


def axes(node: Node) -> tuple[int, int, tuple[int, ...]] | None:
    """The axes of the batch and of the sequence, and all others in order; None where a tensor has not one of each."""
    shape = node.shape or ()
    batch = [place for place, size in enumerate(shape) if isinstance(size, Scalar) and size.expr == _BATCH]
    sequence = [place for place, size in enumerate(shape) if is_sequence(size)]
    if len(batch) != 1 or len(sequence) != 1:
        return None
    return batch[0], sequence[0], tuple(place for place in range(len(shape)) if place not in (*batch, *sequence))
