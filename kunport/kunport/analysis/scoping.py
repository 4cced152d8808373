"""Values that escape from a data-dependent loop other than as what it carries."""

from __future__ import annotations

from kunport_codegen.graph import Arg, Node, refs

_REASON = "reads a value that only exists inside a loop over data"


def contain_leaks(nodes: list[Node], known: set[int] | None = None) -> set[int]:
    """Makes nodes unknown that read what is not there for them, and gives the ids that are there after the last one.

    The source can keep such a value where the interpreter does not look for it, in an object's attribute or in a list.
    """
    known = set() if known is None else known
    for node in nodes:
        _check(node, known)
        if node.body is not None:
            inside = {*known, node.body.variable, *(start for start, _, _ in node.body.carried)}
            inside = contain_leaks(node.body.nodes, inside)
            if not set(refs([after for _, _, after in node.body.carried])) | set(refs(node.body.skip)) <= inside:
                _give_up(node, [])
        known.add(node.id)
    return known


def _check(node: Node, known: set[int]) -> None:
    operands: list[Arg] = [node.args, node.kwargs]
    if node.body is not None:
        operands.append([before for _, before, _ in node.body.carried])
    if not set(refs(operands)) <= known:
        _give_up(node, [each for each in node.args if set(refs(each)) <= known])


def _give_up(node: Node, operands: list[Arg]) -> None:
    node.op, node.args, node.kwargs, node.body = "unknown", (_REASON, *operands), {}, None
