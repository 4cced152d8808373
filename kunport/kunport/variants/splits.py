"""Decisions on how the result of one linear layer is taken apart for several operands of attention."""

from __future__ import annotations

from kunport.variants.model import VIEWS, Model
from kunport.variants.projections import Projection

_TAKES = frozenset(("getitem", "split", "split_with_sizes", "chunk", "unbind", "narrow", "select", "tensor_split"))


def deciding(model: Model, source: Projection) -> set[str]:
    """Fields that decide which lines view a projection's result and take parts of it, the parts' own views left out."""
    fields = set[str]()
    pending = [source.node.id]
    while pending:
        for user in model.index.users.get(pending.pop(), ()):
            node = model.index.nodes[user]
            if node.op in VIEWS:
                pending.append(user)
            elif node.op not in _TAKES:
                continue
            fields |= model.decided_at(node.where)
    return fields
