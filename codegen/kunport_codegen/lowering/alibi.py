"""ALiBi: the slopes by which a source's bias grows, as the formula that the adapter computes them by."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kunport_codegen.expression import Scalar, fields_of, symbols_of, unwrap
from kunport_codegen.facts import Attention
from kunport_codegen.graph import Graph, Node, refs
from kunport_codegen.recognition.evaluate import UnevaluableError, evaluate


@dataclass(frozen=True, slots=True)
class Slopes:
    """Slopes of the usual formula (arXiv:2108.12409): ``largest`` is the exponent of the smallest.

    ``others`` are the numbers of the configuration besides that the source makes its bias of.
    """

    largest: float | Scalar
    others: tuple[Scalar, ...]


def usual_slopes(heads: int, largest: float) -> list[float]:
    """What ``kunport_model_adapters.alibi.alibi_slopes`` gives on one rank."""
    power: int = 2 ** math.ceil(math.log2(heads))
    slopes = [2 ** (-largest * (head + 1) / power) for head in range(power)]
    return slopes if power == heads else (slopes[1::2] + slopes[::2])[:heads]


def slopes_of(graph: Graph, fact: Attention) -> Slopes | None:
    """The slopes of an attention's bias; None where they follow another formula."""
    nodes = {node.id: node for node in graph.nodes}
    heads = unwrap(fact.heads)
    assert fact.bias is not None
    try:
        values = np.asarray(evaluate(nodes, fact.bias, {}))
    except UnevaluableError:
        return None
    last = values.reshape(-1, *values.shape[-2:])[:heads, -1]  # the last query sees every key
    slopes = last[:, 1] - last[:, 0]
    power = 2 ** math.ceil(math.log2(heads))
    if len(slopes) != heads or not np.all(slopes > 0):
        return None
    exponent = -math.log2(slopes[0]) * power / (1 if power == heads else 2)
    if not np.allclose(slopes, usual_slopes(heads, exponent), rtol=1e-6):
        return None
    scalars = list(dict.fromkeys(_scalars(nodes, fact.bias)))
    known = [scalar for scalar in scalars if _is_number(scalar) and math.isclose(unwrap(scalar), exponent)]
    known = [scalar for scalar in known if scalar != fact.heads]
    taken = set(map(str, [*known[:1], fact.heads]))
    others = tuple(scalar for scalar in scalars if fields_of(scalar.expr) and str(scalar) not in taken)
    return Slopes(known[0] if known else round(exponent, 9), others)


def _is_number(scalar: Scalar) -> bool:
    return isinstance(scalar.value, int | float) and bool(fields_of(scalar.expr))


def _scalars(nodes: Mapping[int, Node], wanted: int) -> Iterable[Scalar]:
    """The numbers of the configuration, of no size of the input, that a tensor is made of."""
    pending, seen = [wanted], set[int]()
    while pending:
        current = pending.pop()
        if current in seen or current not in nodes:
            continue
        seen.add(current)
        node = nodes[current]
        yield from (each for each in _leaves([node.args, node.kwargs]) if not symbols_of(each.expr))
        pending.extend(refs((node.args, node.kwargs)))


def _leaves(value: Any) -> Iterable[Scalar]:
    if isinstance(value, Scalar):
        yield value
    elif isinstance(value, dict):
        yield from _leaves(list(value.values()))
    elif isinstance(value, slice):
        yield from _leaves([value.start, value.stop, value.step])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
