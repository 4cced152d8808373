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
            body = node.body
            inside = {body.variable, *(start for start, _, _ in body.carried)}
            known |= inside
            contain_leaks(body.nodes, known)
            if not _are_there([[after for _, _, after in body.carried], body.skip], known):
                _give_up(node, [])
            known -= inside  # in place: a copy for each loop takes longer than all the rest
            known.difference_update(each.id for each in body.nodes)
        known.add(node.id)
    return known


def _check(node: Node, known: set[int]) -> None:
    operands: list[Arg] = [node.args, node.kwargs]
    if node.body is not None:
        operands.append([before for _, before, _ in node.body.carried])
    if not _are_there(operands, known):
        _give_up(node, [each for each in node.args if _are_there(each, known)])


def _are_there(operands: Arg, known: set[int]) -> bool:
    return known.issuperset(refs(operands))


def _give_up(node: Node, operands: list[Arg]) -> None:
    node.op, node.args, node.kwargs, node.body = "unknown", (_REASON, *operands), {}, None
