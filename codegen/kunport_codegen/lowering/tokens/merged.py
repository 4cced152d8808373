"""Axes that hold heads of all tokens in one, ``batch * sequence * heads``, as a source makes them to norm each head."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from kunport_codegen.expression import Expr, Scalar, const, evaluate, read_field, symbols_of, unwrap
from kunport_codegen.graph import Graph
from kunport_codegen.lowering.flow import Size
from kunport_codegen.recognition.states.tokens import counts_tokens

_BATCH = Expr("symbol", ("batch",))

Shape = tuple[Size, ...]


def shapes_apart(graph: Graph) -> tuple[dict[int, Shape | None], set[int]]:
    """The shape of each node, such axes as three, and the nodes that have one."""
    counted = partial(_counted, graph.config)
    shapes: dict[int, Shape | None] = {
        node.id: None if node.shape is None else tuple(map(counted, map(_cancelled, node.shape)))
        for node in graph.nodes
    }
    tokens = next((node.shape for node in graph.nodes if node.op == "input" and len(node.shape or ()) == 2), None)
    if tokens is None:
        return shapes, set()
    merged = {each: found for each, shape in shapes.items() if (found := _apart(shape, tokens)) is not None}
    return {**shapes, **merged}, set(merged)


def _apart(shape: Shape | None, tokens: Shape) -> Shape | None:
    """The shape with its first axis as batch, sequence and heads; None where that is no such axis."""
    if not shape or not isinstance(shape[0], Scalar):
        return None
    factors = list(_factors(shape[0].expr))
    batch = [each for each in factors if each == _BATCH]
    sequence = [each for each in factors if counts_tokens(each)]
    rest = [each for each in factors if each not in (*batch, *sequence)]
    if len(batch) != 1 or len(sequence) != 1 or not rest or any(symbols_of(each) for each in rest):
        return None
    heads = _product(rest)
    count = unwrap(shape[0]) // (unwrap(tokens[0]) * unwrap(tokens[1]))
    return (*tokens, Scalar(count, heads), *shape[1:])


def _cancelled(size: Size) -> Size:
    """``tokens * heads // tokens`` is the heads, in whatever way the source counts its tokens."""
    if not isinstance(size, Scalar) or size.expr.op != "floordiv":
        return size
    whole, divisor = (each if isinstance(each, Expr) else const(each) for each in size.expr.args)
    if not counts_tokens(divisor):
        return size
    factors = list(_factors(whole))
    rest = [each for each in factors if not counts_tokens(each)]
    if len(rest) != len(factors) - 1 or not rest or any(symbols_of(each) for each in rest):
        return size
    return Scalar(size.value, _product(rest))


def _counted(config: Mapping[str, Any], size: Size) -> Size:
    return Scalar(size.value, _tokens(config, size.expr)) if isinstance(size, Scalar) else size


def _tokens(config: Mapping[str, Any], expr: Expr) -> Expr:
    """``tokens * experts // (groups * (experts // groups))``: all tokens, where the source splits what it has of each.

    A configuration for which it is another number is one for which the source cannot split.
    """
    if expr.op != "floordiv":
        return expr
    whole, divisor = (each if isinstance(each, Expr) else const(each) for each in expr.args)
    factors = [each for factor in _factors(whole) for each in _factors(_tokens(config, factor))]
    tokens = [each for each in factors if each == _BATCH or counts_tokens(each)]
    rest = [each for each in factors if each not in tokens]
    if len(tokens) != 2 or _BATCH not in tokens or not rest or any(map(symbols_of, (*rest, divisor))):
        return expr
    try:
        each, split = (evaluate(part, partial(read_field, config), {}) for part in (_product(rest), divisor))
    except (TypeError, ValueError, ArithmeticError, LookupError):
        return expr
    return _product(tokens) if each == split else expr


def _product(factors: list[Expr]) -> Expr:
    product = factors[0]
    for each in factors[1:]:
        product = Expr("mul", (product, each))
    return product


def _factors(expr: Expr) -> list[Expr]:
    if expr.op != "mul":
        return [expr]
    return [each for arg in expr.args for each in _factors(arg if isinstance(arg, Expr) else const(arg))]
