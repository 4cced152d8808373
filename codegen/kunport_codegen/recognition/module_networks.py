"""Feed-forward networks that are modules of their own: one or two projections, an activation, and a projection back.

What lies between is evaluated on random numbers and compared with the formulas, as in `networks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import Node, Ref, refs

from .activations import FORMULAS
from .evaluate import UnevaluableError, evaluate
from .index import Index, sizes
from .rules import Array
from .spelling import spelled

# Operators between the projections of a network.
_BETWEEN = frozenset(
    (
        *("silu", "gelu", "relu", "tanh", "sigmoid", "erf", "add", "sub", "mul", "div", "pow", "square", "neg", "exp"),
        *("chunk", "split", "item", "getitem", "to", "unbind"),
    )
)
_SELECTING = ("getitem", "index_select", "to")


@dataclass(frozen=True, slots=True)
class Form:
    """``activation(gate) * up`` of one projection (``packing`` as in `facts.Experts`) or of two, or no gate."""

    activation: str
    gated: bool
    packing: str


@dataclass(slots=True)
class ModuleNetwork:
    """A network: ids of what it reads and of the tokens that this was taken from, its last node and its parameters."""

    input: int
    tokens: int
    output: Node
    form: Form
    up: str
    down: str
    up_bias: str | None
    down_bias: str | None
    nodes: list[Node]


class ModuleNetworks:
    """Reads networks; each spelling is judged once."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self._read: dict[int, ModuleNetwork | None] = {}

    def read(self, output: Node) -> ModuleNetwork | None:
        """The network that ends in a node, None where there is none."""
        if output.id not in self._read:
            self._read[output.id] = self._network(output) if output.op == "linear" else None
        return self._read[output.id]

    def _network(self, down: Node) -> ModuleNetwork | None:
        index = self.index
        middle, path = index.producer(down.args[0]), self._parameter(down, 1)
        if middle is None or path is None or middle.op not in _BETWEEN:
            return None
        between, ups = self._behind(middle)
        inputs = {up.args[0] for up in ups}
        paths = [self._parameter(up, 1) for up in ups]
        if len(ups) not in (1, 2) or len(inputs) != 1 or None in paths or not isinstance(source := inputs.pop(), Ref):
            return None
        names: dict[int, Any] = {up.id: f"up {position}" for position, up in enumerate(ups)}
        key = "module network", tuple(map(sizes, ups)), spelled(index, between, names)
        form = index.once(key, lambda: self._judge(ups, middle))
        taken = index.strip(index.producer(source), *_SELECTING)
        if form is None or taken is None:
            return None
        return ModuleNetwork(
            input=source.id,
            tokens=taken.id,
            output=down,
            form=form,
            up=str(paths[0]),
            down=path,
            up_bias=next((bias for up in ups if (bias := self._parameter(up, 2))), None),
            down_bias=self._parameter(down, 2),
            nodes=[down, *between, *ups],
        )

    def _parameter(self, linear: Node, position: int) -> str | None:
        arg = linear.args[position] if len(linear.args) > position else None
        node = self.index.strip(self.index.producer(arg), "to")
        return str(node.args[0]) if node is not None and node.op == "parameter" else None

    def _behind(self, middle: Node) -> tuple[list[Node], list[Node]]:
        """The nodes between the projections, and what they end at, in order of execution."""
        between, ends = dict[int, Node](), dict[int, Node]()
        pending = [middle]
        while pending:
            node = pending.pop()
            if node.id in between or node.id in ends:
                continue
            if node.op not in _BETWEEN:
                ends[node.id] = node
                continue
            between[node.id] = node
            pending.extend(
                self.index.nodes[each] for each in refs((node.args, node.kwargs)) if each in self.index.nodes
            )
        projections = [ends[each] for each in sorted(ends)]
        linear = all(node.op == "linear" for node in projections)
        return [between[each] for each in sorted(between)], projections if linear else []

    def _judge(self, ups: list[Node], middle: Node) -> Form | None:
        draw = np.random.default_rng(0)
        known: dict[int, Array] = {}
        for up in ups:
            shape = [unwrap(size) for size in up.shape or ()]
            if not shape:
                return None
            known[up.id] = draw.standard_normal((*(2 for _ in shape[:-1]), shape[-1]))
        data = [known[up.id] for up in ups]
        try:
            values = evaluate(self.index.nodes, middle.id, known)
        except UnevaluableError:
            return None
        for name, activation in FORMULAS.items():
            for form, parts in _parts(name, data):
                wanted = activation(parts[0]) * (parts[1] if form.gated else 1)
                if wanted.shape == values.shape and np.allclose(wanted, values, rtol=1e-6, atol=1e-7):
                    return form
        return None


def _parts(name: str, data: list[Array]) -> list[tuple[Form, list[Array]]]:
    """What the activation, and what multiplies it, may be applied to."""
    if len(data) == 2:
        return [(Form(name, True, "separate"), data), (Form(name, True, "separate"), data[::-1])]
    whole, found = data[0], [(Form(name, False, "single"), data)]
    if whole.shape[-1] % 2 == 0:
        halves = np.split(whole, 2, axis=-1)
        turns = [whole[..., ::2], whole[..., 1::2]]
        for packing, parts in (("concatenated", halves), ("interleaved", turns)):
            found.append((Form(name, True, packing), parts))
            found.append((Form(name, True, f"{packing}_up_first"), parts[::-1]))
    return found
