"""Tensors with a value for each token, by their shapes."""

from __future__ import annotations

from typing import Any

from kunport_codegen.expression import Expr, Scalar
from kunport_codegen.graph import Node

_SEQUENCE, _BATCH = Expr("symbol", ("sequence",)), Expr("symbol", ("batch",))


def is_sequence(size: Any) -> bool:
    """Whether a size is the number of tokens of a sequence."""
    return isinstance(size, Scalar) and size.expr == _SEQUENCE


def axes(node: Node) -> tuple[int, int, tuple[int, ...]] | None:
    """The axes of the batch and of the sequence, and all others in order; None where a tensor has not one of each."""
    shape = node.shape or ()
    batch = [place for place, size in enumerate(shape) if isinstance(size, Scalar) and size.expr == _BATCH]
    sequence = [place for place, size in enumerate(shape) if is_sequence(size)]
    if len(batch) != 1 or len(sequence) != 1:
        return None
    return batch[0], sequence[0], tuple(place for place in range(len(shape)) if place not in (*batch, *sequence))
