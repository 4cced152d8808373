"""Which nodes a result needs, through tensors and through the sizes that only data tell."""

from __future__ import annotations

from collections.abc import Collection

from kunport_codegen.expression import Scalar, symbols_of
from kunport_codegen.graph import Arg, Body, Graph, Node, refs


def reads(node: Node) -> set[int]:
    """The values that a node reads; for a loop also what its body reads."""
    found = set(refs((node.args, node.kwargs)))
    if node.body is not None:
        found |= _body_reads(node.body)
    return found


def _body_reads(body: Body) -> set[int]:
    arguments: list[Arg] = [value for _, *values in body.carried for value in values] + [body.skip]
    return set(refs(arguments)).union(*map(reads, body.nodes))


def needed(graph: Graph, ids: Collection[int]) -> set[int]:
    """The nodes that the named ones depend on; where a node of a loop is needed, so is the loop."""
    measured = {name: node.id for node in reversed([*graph.walk()]) for name in _names(node)}
    sources: dict[int, set[int]] = {}
    for node in graph.walk():
        sources[node.id] = reads(node) | {measured[name] for name in _symbols((node.args, node.kwargs)) & set(measured)}
    for node in graph.walk():
        if node.body is not None:
            sources[node.id] |= {inner.id for inner in node.body.nodes}
            for inner in node.body.nodes:
                sources[inner.id].add(node.id)
    found: set[int] = set()
    pending = list(ids)
    while pending:
        one = pending.pop()
        if one not in found:
            found.add(one)
            pending += sources.get(one, ())
    return found


def _names(node: Node) -> list[str]:
    """The sizes that only data tell and that this node's shape shows."""
    plain = [size.expr for size in node.shape or () if isinstance(size, Scalar) and size.expr.op == "symbol"]
    return [expr.args[0] for expr in plain if expr.args[0] not in ("batch", "sequence", "past")]


def _symbols(value: Arg) -> set[str]:
    """The sizes that an argument mentions."""
    match value:
        case Scalar():
            return symbols_of(value.expr)
        case list() | tuple():
            return set().union(*map(_symbols, value))
        case dict():
            return _symbols(list(value.values()))
        case slice():
            return _symbols((value.start, value.stop, value.step))
        case _:
            return set()
