"""What a piece of a graph spells, so that one that occurs in every layer is judged once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import Node, Ref

from .index import Index


def spelled(index: Index, nodes: Iterable[Node], names: Mapping[int, Any]) -> tuple[Any, ...]:
    """Operators and arguments with tensors named by their place: two pieces that spell the same compute the same.

    Args:
        index: the graph's.
        nodes: those of the piece.
        names: what the tensors that the piece reads are called; those it reads beyond are spelled out themselves.
    """
    known = dict(names)

    def name(arg: Any) -> Any:
        if isinstance(arg, Ref):
            return ("%", known[arg.id] if arg.id in known else beyond(arg.id))
        if isinstance(arg, list | tuple):
            return tuple(map(name, arg))
        return (slice, name(arg.start), name(arg.stop), name(arg.step)) if isinstance(arg, slice) else unwrap(arg)

    def beyond(identifier: int) -> Any:
        node = index.nodes.get(identifier)
        known[identifier] = found = ("tensor", identifier) if node is None else spell(node)
        return found

    def spell(node: Node) -> Any:
        shape = None if node.shape is None else tuple(map(unwrap, node.shape))
        return node.op, shape, name(node.args), tuple((key, name(arg)) for key, arg in sorted(node.kwargs.items()))

    result = []
    for node in sorted(nodes, key=lambda node: index.order[node.id]):
        if node.id not in names:
            result.append(spell(node))
            known[node.id] = len(result)
    return tuple(result)
