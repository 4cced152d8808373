"""Activation functions, as one operator of torch or spelled out.

An activation is elementwise, so what is spelled out is evaluated on a few numbers and compared with the formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import numpy as np

from kunport_codegen.expression import Scalar
from kunport_codegen.facts import Activation
from kunport_codegen.graph import Node, Ref

from .draw import Draw
from .elementwise import SELU, SELU_ALPHA, elu, gelu, hardswish, leaky_relu, mish, sigmoid
from .evaluate import UnevaluableError, evaluate
from .index import Index
from .pattern import Any, Match, Op, Parameter
from .rules import Array

_OPERATORS = (
    "silu",
    "gelu",
    "relu",
    "tanh",
    "sigmoid",
    "erf",
    "mish",
    "elu",
    "selu",
    "leaky_relu",
    "hardswish",
    "softplus",
)
# Operators that an activation may be spelled with.
_ELEMENTWISE = frozenset((*_OPERATORS, "add", "sub", "mul", "div", "pow", "square", "neg", "exp"))
_PROBE = np.concatenate((np.linspace(-6, 6, 25), Draw().standard_normal(15)))


# Name -> formula, see `Activation`.
FORMULAS: dict[str, Callable[[Array], Array]] = {
    "silu": lambda x: x * sigmoid(x),
    "gelu": gelu,
    "gelu_tanh": lambda x: gelu(x, "tanh"),
    "quick_gelu": lambda x: x * sigmoid(1.702 * x),
    "relu": lambda x: np.maximum(x, 0),
    "relu2": lambda x: np.maximum(x, 0) ** 2,
    "mish": mish,
    "elu": elu,
    "selu": lambda x: SELU * elu(x, SELU_ALPHA),
    "leaky_relu": leaky_relu,
    "hardswish": hardswish,
}
_EXPECTED = np.stack([formula(_PROBE) for formula in FORMULAS.values()])
_ROUNDED = 1e-6  # what a constant written with six digits changes, as in erf(x / 1.41421)
_LONGEST = 16  # operators, of which no formula above needs more: in longer chains nothing more is looked for


# xIELU (arXiv:2411.13010): x > 0 gives softplus(p) x^2 + b x, and else (exp(min(x, e)) - 1 - x)(b + softplus(n)) + b x.
_X, _BETA = Any("x"), Parameter("beta")
_LINE = Op("mul", _BETA, _X)
_RISING = Op("add", Op("mul", Op("mul", Op("softplus", Parameter("p")), _X), _X), _LINE)
_CURVE = Op("sub", Op("expm1", Op("minimum", _X, Parameter("e"))), _X)
_FALLING = Op("add", Op("mul", _CURVE, Op("add", _BETA, Op("softplus", Parameter("n")))), _LINE)
_XIELU = Op("where", Op("gt", _X, 0), _RISING, _FALLING)


def find_activations(index: Index) -> list[Activation]:
    """The activations of a graph, in order of their result."""
    found: dict[int, Activation] = {}
    ending = cache(partial(_ending, index))
    for node in index.in_order(*_OPERATORS):
        chain = (node, *index.follow(node, lambda user: user.op in _ELEMENTWISE, most=_LONGEST))
        # The one with most nodes of those that the operator is part of.
        activation = next(filter(None, (ending(output.id) for output in reversed(chain))), None)
        if activation is not None:
            found[activation.output] = activation
    for node in index.in_order("where"):
        match = Match(index)
        if match.matches(_XIELU, Ref(node.id)):
            covered = index.exclusive(match.nodes.values(), node)
            found[node.id] = Activation("xielu", match.bound["x"].id, node.id, covered, node.frame, node.where)
    return sorted(found.values(), key=lambda each: index.order[each.output])


def _ending(index: Index, identifier: int) -> Activation | None:
    """The activation that a node is the result of."""
    output = index.nodes[identifier]
    for source, nodes in index.sources(output, _ELEMENTWISE, most=_LONGEST):
        name = _name(index, source, output)
        # A constant that the configuration gives may be another one under another configuration.
        if name is not None and not any(isinstance(arg, Scalar) for each in nodes for arg in each.args):
            covered = index.exclusive(nodes, output)
            return Activation(name, source.id, output.id, covered, output.frame, output.where)
    return None


def _name(index: Index, source: Node, output: Node) -> str | None:
    try:
        values = evaluate(index.nodes, output.id, {source.id: _PROBE})
    except UnevaluableError:
        return None
    if values.shape != _PROBE.shape:
        return None
    with np.errstate(invalid="ignore"):
        near = (np.abs(values - _EXPECTED) <= _ROUNDED * (1 + np.abs(_EXPECTED))).all(axis=-1)
    return next((name for name, same in zip(FORMULAS, near, strict=True) if same), None)
