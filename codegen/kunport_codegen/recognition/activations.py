"""Activation functions, as one operator of torch or spelled out.

An activation is elementwise, so what is spelled out is evaluated on a few numbers and compared with the formulas.
"""

from __future__ import annotations

from collections.abc import Callable

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
_EXPECTED = {name: formula(_PROBE) for name, formula in FORMULAS.items()}


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
    for node in index.in_order(*_OPERATORS):
        activation = _largest(index, node)
        if activation is not None:
            found[activation.output] = activation
    for node in index.in_order("where"):
        match = Match(index)
        if match.matches(_XIELU, Ref(node.id)):
            covered = index.exclusive(match.nodes.values(), node)
            found[node.id] = Activation("xielu", match.bound["x"].id, node.id, covered, node.frame, node.where)
    return sorted(found.values(), key=lambda each: index.order[each.output])


def _largest(index: Index, node: Node) -> Activation | None:
    """The activation that an operator is part of, the one with most nodes."""
    found = None
    for output in (node, *index.follow(node, lambda user: user.op in _ELEMENTWISE)):
        for source, nodes in index.sources(output, _ELEMENTWISE):
            name = _name(index, source, output)
            # A constant that the configuration gives may be another one under another configuration.
            if name is not None and not any(isinstance(arg, Scalar) for each in nodes for arg in each.args):
                covered = index.exclusive(nodes, output)
                found = Activation(name, source.id, output.id, covered, output.frame, output.where)
                break
    return found


def _name(index: Index, source: Node, output: Node) -> str | None:
    try:
        values = evaluate(index.nodes, output.id, {source.id: _PROBE})
    except UnevaluableError:
        return None
    if values.shape != _PROBE.shape:
        return None
    return next((name for name, wanted in _EXPECTED.items() if np.allclose(values, wanted, rtol=1e-6, atol=1e-7)), None)
