"""Rotary tables that are made once for all positions, sines and cosines side by side, and looked up by position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kunport_codegen.facts import RopeTable
from kunport_codegen.graph import Node

from .evaluate import UnevaluableError, evaluate
from .index import Index
from .spelling import spelled
from .tables import Basis, bases, described_table, probe

_HALVES = ("split", "chunk")


def find_gathered(index: Index) -> Iterator[RopeTable]:
    """The halves of a constant that are, at every position, the sines and cosines of its angles (or the reverse)."""
    judged: dict[Any, tuple[Basis, bool] | None] = {}
    for node in _constants_of_angles(index):
        halves = [index.nodes[user] for user in index.users.get(node.id, ()) if user in index.nodes]
        places = {half.args[1] for half in halves if half.op == "item"}
        if node.op not in _HALVES or len(halves) != 2 or places != {0, 1}:
            continue
        key = spelled(index, index.ancestors(node.id), {})
        if key not in judged:
            judged[key] = _judge(index, node)
        found = judged[key]
        if found is not None:
            basis, cosines_first = found
            first, second = sorted(halves, key=lambda half: bool(half.args[1]))
            pair = (first, second) if cosines_first else (second, first)
            yield described_table(index, basis, *pair, 1.0, node)


def _constants_of_angles(index: Index) -> list[Node]:
    """The constants that are made of sines or cosines, in order."""
    found: set[int] = set()
    pending = [node.id for node in index.in_order("cos", "sin") if index.constant(node.id)]
    while pending:
        users = [user for user in index.users.get(pending.pop(), ()) if user in index.nodes and user not in found]
        constants = [user for user in users if index.constant(user)]
        found.update(constants)
        pending.extend(constants)
    return [index.nodes[each] for each in sorted(found, key=index.order.__getitem__)]


def _judge(index: Index, node: Node) -> tuple[Basis, bool] | None:
    """What the halves are made of, and whether the cosines come first."""
    probed = probe(index, node.id)
    if probed is None:
        return None
    positions, known = probed
    try:
        values = evaluate(index.nodes, node.id, known)
    except UnevaluableError:
        return None
    if len(values) != 2:
        return None
    first, second = (np.reshape(each, (-1, np.shape(each)[-1])) for each in values)
    for basis in bases(index, node.id):
        angles = positions[:, None] * basis.frequencies
        if first.shape != angles.shape or second.shape != angles.shape:
            continue
        for cosines, sines in ((first, second), (second, first)):
            if np.allclose(cosines, np.cos(angles), atol=1e-6) and np.allclose(sines, np.sin(angles), atol=1e-6):
                return basis, cosines is first
    return None
