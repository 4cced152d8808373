"""Evaluates small parts of a graph with numpy, to read from numbers what they compute.

Floating point is float64 throughout and casts between floating types are ignored: the question is which formula the
nodes compute, not how they round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kunport_codegen.expression import Scalar
from kunport_codegen.graph import Body, Node, Ref

from .rules import RULES, Array

_LARGEST = 20_000_000  # elements of a tensor, beyond which none is made: a configuration may ask for any number


# The value of a number that has an expression, given symbols that the turn of a loop binds.
Number = Callable[[Scalar, Mapping[str, int]], Any]


def as_read(scalar: Scalar, turns: Mapping[str, int]) -> Any:
    """The value under which the graph was read."""
    return scalar.value


class UnevaluableError(Exception):
    """A node that these rules do not cover."""


def evaluate(
    nodes: Mapping[int, Node],
    wanted: int,
    known: dict[int, Array],
    number: Number = as_read,
    turns: Mapping[str, int] | None = None,
) -> Array:
    """The value of a tensor, given some values; ``known`` receives those computed on the way.

    Numbers are what they were when the graph was read, or what ``number`` makes of them.

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
            operands = [*operands, *_outside(nodes, node.body)]
        missing = [each for each in operands if each not in known]
        if missing:
            pending.extend(missing)
            continue
        if node.body is not None:
            known[current] = _turns(nodes, node, node.body, known, number, turns or {})
        else:
            known[current] = _apply(node, known, lambda scalar: number(scalar, turns or {}))
    return known[wanted]


def _outside(nodes: Mapping[int, Node], body: Body) -> list[int]:
    """What a loop's turns read that none of them makes, so that it is computed once."""
    made = {body.variable, *(inner for inner, _, _ in body.carried), *(node.id for node in body.nodes)}
    found = dict.fromkeys(before.id for _, before, _ in body.carried if isinstance(before, Ref))
    pending = [after.id for _, _, after in body.carried if isinstance(after, Ref)]
    pending += [body.skip.id] if body.skip is not None else []
    seen: set[int] = set()
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        node = nodes.get(current)
        if current not in made:
            found[current] = None
        elif node is not None:
            pending += _operands(node.args, node.kwargs) + ([] if node.body is None else _outside(nodes, node.body))
    return list(found)


def _turns(
    nodes: Mapping[int, Node],
    loop: Node,
    body: Body,
    known: dict[int, Array],
    number: Number,
    turns: Mapping[str, int],
) -> Any:
    """What a loop carries after its last turn."""

    def plain(arg: Any, known: Mapping[int, Array]) -> Any:
        return _plain(arg, known, lambda scalar: number(scalar, turns))

    carried = [plain(before, known) for _, before, _ in body.carried]
    for row in known[loop.args[0].id]:
        turn = {**known, body.variable: row}
        inner = {**turns, f"turn_{body.variable}": int(row)} if np.ndim(row) == 0 else turns
        turn.update((inner, value) for (inner, _, _), value in zip(body.carried, carried, strict=True))
        if body.skip is not None and evaluate(nodes, body.skip.id, turn, number, inner):
            continue
        for _, _, after in body.carried:
            if isinstance(after, Ref):
                evaluate(nodes, after.id, turn, number, inner)
        carried = [plain(after, turn) for _, _, after in body.carried]
    return carried


def _operands(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int]:
    found: list[int] = []
    for arg in (*args, *kwargs.values()):
        if isinstance(arg, Ref):
            found.append(arg.id)
        elif isinstance(arg, list | tuple):
            found.extend(each.id for each in arg if isinstance(each, Ref))
    return found


def _apply(node: Node, known: Mapping[int, Array], number: Callable[[Scalar], Any]) -> Array:
    rule = RULES.get(node.op)
    if rule is None:
        raise UnevaluableError(node.op)
    sizes = (number(each) if isinstance(each, Scalar) else each for each in node.shape or ())
    if math.prod(size if isinstance(size, int) else 1 for size in sizes) > _LARGEST:
        raise UnevaluableError(f"{node.op} of more than {_LARGEST:,} elements")
    args = [_plain(arg, known, number) for arg in node.args]
    kwargs = {name: _plain(arg, known, number) for name, arg in node.kwargs.items()}
    try:
        with np.errstate(all="ignore"):
            result: Array = rule(*args, **kwargs)
    except (TypeError, ValueError, IndexError, OverflowError, MemoryError) as error:
        raise UnevaluableError(f"{node.op}: {error}") from error
    return result


def _plain(arg: Any, known: Mapping[int, Array], number: Callable[[Scalar], Any]) -> Any:
    if isinstance(arg, Ref):
        return known[arg.id]
    if isinstance(arg, list | tuple):
        return type(arg)(_plain(each, known, number) for each in arg)
    if isinstance(arg, slice):
        return slice(*(_plain(each, known, number) for each in (arg.start, arg.stop, arg.step)))
    return number(arg) if isinstance(arg, Scalar) else arg
