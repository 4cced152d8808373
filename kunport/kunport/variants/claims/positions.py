"""What changes the positions of tokens before they are used: the first of them need not show it."""

from __future__ import annotations

from collections.abc import Iterator

from kunport_codegen.expression import Scalar, symbols_of
from kunport_codegen.graph import Node

from kunport.variants.model import Model
from kunport.variants.tokens import embedded

# Operators after which a position may be another number, from some position on or now and then.
_BENDING = frozenset(
    (
        *("where", "clamp", "minimum", "maximum", "masked_fill", "remainder", "fmod", "floor_divide", "floor", "round"),
        *("trunc", "ceil"),
    )
)


def bent(model: Model) -> Iterator[Node]:
    """The operators on numbers of each position before the angles of a rotation, or a look-up by position."""
    seen = set[int]()
    tables = [each.cos for each in model.facts.tables]
    looked_up = [model.index.nodes[each].args[0].id for each in sorted(embedded(model).by_position)]
    for made in dict.fromkeys((*tables, *looked_up)):
        for node in model.index.ancestors(made):
            if node.op in _BENDING and node.id not in seen and _of_tokens(node):
                seen.add(node.id)
                yield node


def _of_tokens(node: Node) -> bool:
    return any(isinstance(size, Scalar) and bool(symbols_of(size.expr)) for size in node.shape or ())
