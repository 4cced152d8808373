"""Evaluates small parts of a graph with numpy, to read from numbers what they compute.

Floating point is float64 throughout and casts between floating types are ignored: the question is which formula the
nodes compute, not how they round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import Body, Node, Ref

from .rules import RULES, Array

_LARGEST = 20_000_000  # elements of a tensor, beyond which none is made: a configuration may ask for any number


class UnevaluableError(Exception):
    """A node that these rules do not cover."""


def evaluate(nodes: Mapping[int, Node], wanted: int, known: dict[int, Array]) -> Array:
    """The value of a tensor, given some values; ``known`` receives those computed on the way.

    Raises:
        UnevaluableError: an operator on the way has no rule, or does not take its operands.
    """
    pending = [wanted]
    while pending:
        current = pending[-1]
        if current in known:
            pending.pop()
            continue
        node = nodes.get(current)
        if node is None:
            raise UnevaluableError(f"%{current}")
        operands = _operands(node.args, node.kwargs)
        if node.body is not None:
            operands = [*operands, *(before.id for _, before, _ in node.body.carried if isinstance(before, Ref))]
        missing = [each for each in operands if each not in known]
        if missing:
            pending.extend(missing)
            continue
        known[current] = _apply(node, known) if node.body is None else _turns(nodes, node, node.body, known)
    return known[wanted]


def _turns(nodes: Mapping[int, Node], loop: Node, body: Body, known: dict[int, Array]) -> Any:
    """What a loop carries after its last turn."""
    carried = [_plain(before, known) for _, before, _ in body.carried]
    for row in known[loop.args[0].id]:
        turn = {**known, body.variable: row}
        turn.update((inner, value) for (inner, _, _), value in zip(body.carried, carried, strict=True))
        if body.skip is not None and evaluate(nodes, body.skip.id, turn):
            continue
        for _, _, after in body.carried:
            if isinstance(after, Ref):
                evaluate(nodes, after.id, turn)
        carried = [_plain(after, turn) for _, _, after in body.carried]
    return carried


def _operands(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int]:
    found: list[int] = []
    for arg in (*args, *kwargs.values()):
        if isinstance(arg, Ref):
            found.append(arg.id)
        elif isinstance(arg, list | tuple):
            found.extend(each.id for each in arg if isinstance(each, Ref))
    return found


def _apply(node: Node, known: Mapping[int, Array]) -> Array:
    rule = RULES.get(node.op)
    if rule is None:
        raise UnevaluableError(node.op)
    if math.prod(size if isinstance(size := unwrap(each), int) else 1 for each in node.shape or ()) > _LARGEST:
        raise UnevaluableError(f"{node.op} of more than {_LARGEST:,} elements")
    args = [_plain(arg, known) for arg in node.args]
    kwargs = {name: _plain(arg, known) for name, arg in node.kwargs.items()}
    try:
        with np.errstate(all="ignore"):
            result: Array = rule(*args, **kwargs)
    except (TypeError, ValueError, IndexError, OverflowError, MemoryError) as error:
        raise UnevaluableError(f"{node.op}: {error}") from error
    return result


def _plain(arg: Any, known: Mapping[int, Array]) -> Any:
    if isinstance(arg, Ref):
        return known[arg.id]
    if isinstance(arg, list | tuple):
        return type(arg)(_plain(each, known) for each in arg)
    if isinstance(arg, slice):
        return slice(*(_plain(each, known) for each in (arg.start, arg.stop, arg.step)))
    return unwrap(arg)
