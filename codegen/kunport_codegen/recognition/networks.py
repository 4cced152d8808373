"""The feed-forward network of one expert: stacked weights, their packing, and the activation between them.

Between the two projections everything is elementwise once the halves are taken apart. So it is evaluated on random
numbers and compared with the formulas, whichever way the source spells halves, limits and activation.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Number
from kunport_codegen.graph import Node, Ref, refs

from .activations import FORMULAS
from .evaluate import UnevaluableError, evaluate
from .index import Index, number, sizes
from .rules import Array
from .spelling import spelled

_PROJECTIONS = frozenset(("linear", "matmul"))
_JUDGED = 1000  # about as many numbers are compared with each formula


@dataclass(slots=True)
class Network:
    """What `facts.Experts` says of an expert; ``input`` is what its tokens are, ``sizes`` experts, width, hidden."""

    input: Ref
    gate_up: str
    down: str
    gate_up_bias: str | None
    down_bias: str | None
    transposed: bool
    gated: bool
    packing: str
    activation: str
    limit: Number | None
    up_offset: float
    sizes: tuple[int, int, int]
    counts: tuple[Any, ...]
    nodes: list[Node]


@dataclass(slots=True)
class _Projection:
    """One expert's slice of a stacked weight applied to a tensor."""

    input: Ref
    weight: str
    bias: str | None
    transposed: bool
    output: Node
    nodes: list[Node] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class _Formula:
    """``activation(gate) * (up + offset)``, both limited, or ``activation(x)`` alone."""

    activation: str
    gated: bool
    packing: str
    limit: float | None
    up_offset: float


class Networks:
    """Reads networks of experts; each spelling is judged once."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.judged: dict[Any, _Formula | None] = {}

    def read(self, output: Node, expert: Ref) -> Network | None:
        """The network of which an expert's output comes."""
        index = self.index
        down = self._projection(output, expert)
        middle = index.producer(down.input) if down is not None else None
        if down is None or middle is None:
            return None
        found = self._up(middle, expert)
        if found is None:
            return None
        up, between = found
        key = sizes(up.output), spelled(index, between, {up.output.id: "x"})
        if key not in self.judged:
            self.judged[key] = self._judge(up.output, middle, between)
        formula = self.judged[key]
        shapes = self._shapes(up, down, formula.gated) if formula is not None else None
        if formula is None or shapes is None or up.transposed != down.transposed:
            return None
        return Network(
            input=up.input,
            gate_up=up.weight,
            down=down.weight,
            gate_up_bias=up.bias,
            down_bias=down.bias,
            transposed=up.transposed,
            gated=formula.gated,
            packing=formula.packing,
            activation=formula.activation,
            limit=_named(between, formula.limit),
            up_offset=formula.up_offset,
            sizes=shapes,
            counts=tuple(index.graph.parameters[each.weight].shape[0] for each in (up, down)),
            nodes=[*up.nodes, *between, *down.nodes],
        )

    def _projection(self, output: Node, expert: Ref) -> _Projection | None:
        """``x @ weight[expert].T + bias[expert]``, or with the weight stored transposed."""
        index, nodes, bias = self.index, [output], None
        node: Node | None = output
        if output.op == "add" and len(output.args) == 2:
            for arg, other in (output.args, output.args[::-1]):
                bias = bias or self._slice(arg, expert, nodes)
                node = index.producer(other) if bias and node is output else node
        if node is None or node.op not in _PROJECTIONS or len(node.args) not in (2, 3):
            return None
        if node is not output:
            nodes.append(node)
        if len(node.args) == 3 and node.args[2] is not None:
            bias = self._slice(node.args[2], expert, nodes) if bias is None else None
            if bias is None:
                return None
        transposed = node.op == "matmul"
        arg = node.args[1]
        turned = index.producer(arg)
        if transposed and turned is not None and turned.op in ("transpose", "t"):
            nodes.append(turned)
            transposed, arg = False, turned.args[0]
        weight = self._slice(arg, expert, nodes)
        source = node.args[0]
        if weight is None or not isinstance(source, Ref):
            return None
        return _Projection(source, weight, bias, transposed, output, nodes)

    def _slice(self, arg: Any, expert: Ref, nodes: list[Node]) -> str | None:
        """The path of a stacked parameter of which one expert's part is taken."""
        taken = self.index.producer(arg)
        stacked = self.index.producer(taken.args[0]) if taken is not None and taken.op == "getitem" else None
        if taken is None or stacked is None or stacked.op != "parameter" or taken.args[1] != expert:
            return None
        nodes.append(taken)
        return str(stacked.args[0])

    def _up(self, middle: Node, expert: Ref) -> tuple[_Projection, list[Node]] | None:
        """The projection that ``middle`` is computed from, and the nodes in between."""
        between: dict[int, Node] = {}
        found: _Projection | None = None
        pending = [middle]
        while pending:
            node = pending.pop()
            if node.id in between or (found is not None and node is found.output):
                continue
            projection = self._projection(node, expert)
            if projection is not None:
                if found is not None:
                    return None
                found = projection
                continue
            operands = [self.index.nodes.get(each) for each in refs((node.args, node.kwargs))]
            if not operands or node.op in _PROJECTIONS or any(each is None for each in operands):
                return None
            between[node.id] = node
            pending.extend(each for each in operands if each is not None)
        return (found, list(between.values())) if found is not None else None

    def _judge(self, source: Node, output: Node, between: list[Node]) -> _Formula | None:
        shape = sizes(source)
        if shape is None or len(shape) != 2:
            return None
        draw = np.random.default_rng(0)
        data = draw.standard_normal(shape) * 10 ** draw.uniform(-1, 1.5, shape)  # some beyond any limit
        judged = max(2, _JUDGED // shape[1])
        try:
            values = evaluate(self.index.nodes, output.id, {source.id: data})
        except UnevaluableError:
            return None
        limits = {abs(float(unwrap(each))) for each in _clamps(between)}
        for formula in _formulas(limits):
            wanted = _value(formula, data[:judged]) if formula.gated == (values.shape != data.shape) else None
            if wanted is None or len(values) != len(data) or wanted.shape[1:] != values.shape[1:]:
                continue
            if np.allclose(values[:judged], wanted, 1e-6, 1e-7):
                return formula
        return None

    def _shapes(self, up: _Projection, down: _Projection, gated: bool) -> tuple[int, int, int] | None:
        """Experts, width of one and hidden size, where the stacked weights agree on them."""
        shapes = [self.index.graph.parameters[each.weight].shape for each in (up, down)]
        if any(len(shape) != 3 for shape in shapes):
            return None
        first, second = ([unwrap(size) for size in shape] for shape in shapes)
        if up.transposed:
            first, second = [first[0], first[2], first[1]], [second[0], second[2], second[1]]
        experts, double, hidden = first
        if double % 2 and gated:
            return None
        width = double // 2 if gated else double
        return (experts, width, hidden) if second == [experts, hidden, width] else None


def _formulas(limits: set[float]) -> Iterator[_Formula]:
    for activation in FORMULAS:
        yield _Formula(activation, False, "single", None, 0.0)
    packings = ("concatenated", "concatenated_up_first", "interleaved", "interleaved_up_first")
    for activation, packing, limit in itertools.product(FORMULAS, packings, (None, *sorted(limits))):
        for offset in (0.0, 1.0):
            yield _Formula(activation, True, packing, limit, offset)


def _value(formula: _Formula, data: Array) -> Array | None:
    activation = FORMULAS[formula.activation]
    if not formula.gated:
        return activation(data)
    half = data.shape[1] // 2
    if formula.packing.startswith("concatenated"):
        gate, up = data[:, :half], data[:, half:]
    else:
        gate, up = data[:, ::2], data[:, 1::2]
    if formula.packing.endswith("up_first"):
        gate, up = up, gate
    if gate.shape != up.shape:
        return None
    if formula.limit is not None:
        gate, up = np.minimum(gate, formula.limit), np.clip(up, -formula.limit, formula.limit)
    result: Array = activation(gate) * (up + formula.up_offset)
    return result


def _clamps(between: list[Node]) -> list[Number]:
    found = [each for node in between if node.op == "clamp" for each in (*node.args[1:], *node.kwargs.values())]
    return [each for each in found if number(each) is not None]


def _named(between: list[Node], limit: float | None) -> Number | None:
    """The number of the source that a limit is."""
    return next((each for each in _clamps(between) if limit is not None and unwrap(each) == limit), limit)
