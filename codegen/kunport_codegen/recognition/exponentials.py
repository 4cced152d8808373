"""Frequencies of a rotation that are spelled ``exp(arange(0, dim, 2) * -(log(theta) / dim))``."""

from __future__ import annotations

import math

import numpy as np

from kunport_codegen.expression import Expr, Scalar, fields_of, read_field, symbols_of, unwrap, walk
from kunport_codegen.expression import evaluate as evaluate_expression
from kunport_codegen.facts import Number
from kunport_codegen.graph import Node

from .evaluate import UnevaluableError, evaluate
from .index import Index, combine, number


def exponential(index: Index, node: Node) -> tuple[Number, Number] | None:
    """The theta and the dim that an ``exp`` gives frequencies of, None where its exponents are no such numbers."""
    exponent = index.producer(node.args[0])
    if exponent is None or not index.constant(exponent.id):
        return None
    try:
        logarithms = -np.asarray(evaluate(index.nodes, exponent.id, {}), dtype=np.float64)
    except UnevaluableError:
        return None
    size = logarithms.size
    if logarithms.ndim != 1 or size < 2 or logarithms[1] <= 0 or logarithms[1] * size > 700:
        return None
    if not np.allclose(logarithms, logarithms[1] * np.arange(size)):
        return None
    logarithm = float(logarithms[1]) * size  # of theta ** (2 / dim), dim / 2 times
    numbers = [
        found
        for each in index.ancestors(exponent.id)
        for arg in (*each.args, *each.kwargs.values())
        if (found := number(arg)) is not None
    ]
    dims = (*numbers, *(combine("mul", 2, each) for each in numbers))
    return _theta(index, numbers, logarithm), next((each for each in dims if unwrap(each) == 2 * size), 2 * size)


def _theta(index: Index, numbers: list[Number], logarithm: float) -> Number:
    """The number whose logarithm was taken, with its expression; else what the logarithm gives, whole if it is near."""
    value = math.exp(logarithm)
    if abs(value - round(value)) < 1e-9 * value:
        value = float(round(value))
    for scalar in numbers:
        for expr in walk(scalar.expr) if isinstance(scalar, Scalar) else ():
            source = expr.args[0] if expr.op == "log" and len(expr.args) == 1 else None
            if isinstance(source, Expr) and fields_of(source) and not symbols_of(source):
                held = evaluate_expression(source, lambda path: read_field(index.graph.config, path), {})
                if math.isclose(held, value, rel_tol=1e-9):
                    return Scalar(held, source)
    return value
