"""Rotations of query and key by their position.

For given tables a rotation is a linear map of the tensor. So the nodes between a tensor and its rotation are
evaluated on random numbers and compared with the formula: pairs, signs, the rotated share and what passes through
unrotated are then all known to be right, however the source spells them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from kunport_codegen.facts import Rope, RopeTable
from kunport_codegen.graph import Node, refs

from .evaluate import UnevaluableError, evaluate
from .index import FLOAT32, Index, sizes
from .rules import Array
from .spelling import spelled
from .tables import frequencies_of, probe

# Operators that a rotation may be spelled with.
_LINEAR = frozenset(
    ("add", "sub", "mul", "neg", "to", "cat", "stack", "getitem", "item", "chunk", "split")
) | frozenset(("flatten", "reshape", "unflatten", "unsqueeze", "squeeze"))
_STYLES = ("half", "interleaved")


def find_ropes(index: Index, tables: list[RopeTable]) -> list[Rope]:
    """The rotations by the given tables, in order of execution."""
    judged: dict[Any, str | None] = {}
    found = []
    for table in tables:
        reader = _Reader(index, table, judged)
        covered: set[int] = set()
        for product in reader.products():
            rope = None if product.id in covered else reader.rotation(product)
            if rope is not None:
                found.append(rope)
                covered |= rope.nodes
    return sorted(found, key=lambda rope: index.order[rope.output])


@dataclass(slots=True)
class _Region:
    """The nodes between a tensor, ``source``, and its rotation."""

    source: Node
    nodes: list[Node]


class _Reader:
    """Finds what one table rotates."""

    def __init__(self, index: Index, table: RopeTable, judged: dict[Any, str | None]) -> None:
        self.index, self.table, self.judged = index, table, judged
        # Constants that are made of a table -> that table.
        self.origins = {table.cos: table.cos, table.sin: table.sin}
        pending = [table.cos, table.sin]
        while pending:
            current = pending.pop()
            for user in index.users.get(current, ()):
                if user in index.nodes and user not in self.origins and index.constant(user):
                    self.origins[user] = self.origins[current]
                    pending.append(user)

    def products(self) -> list[Node]:
        """The multiplications of data by a table, in order."""
        users = {
            user for origin in self.origins for user in self.index.users.get(origin, ()) if user in self.index.nodes
        }
        nodes = [self.index.nodes[each] for each in users if not self.index.constant(each)]
        return sorted((node for node in nodes if node.op == "mul"), key=lambda node: self.index.order[node.id])

    def rotation(self, product: Node) -> Rope | None:
        """The largest rotation that a product belongs to."""
        rope = None
        for output in self.index.follow(product, lambda user: user.op in _LINEAR):
            region = self.region(output)
            if region is None:
                continue
            upcast = region.source
            before = self.index.producer(upcast.args[0]) if upcast.op == "to" and upcast.dtype == FLOAT32 else None
            if before is not None and before.dtype == output.dtype:
                region = _Region(before, [upcast, *region.nodes])
            if region.source.dtype != output.dtype or sizes(region.source) != sizes(output):
                continue
            style = self.style(output, region)
            if style is not None:
                rope = self.fact(output, region, style)
        return rope

    def region(self, output: Node) -> _Region | None:
        """The nodes from ``output`` back to the nearest tensor that reads both tables on its way to it."""
        for source, nodes in self.index.sources(output, _LINEAR):
            tables = {self.origins.get(operand) for node in nodes for operand in refs((node.args, node.kwargs))}
            if tables >= {self.table.cos, self.table.sin}:
                return _Region(source, list(nodes))
        return None

    def style(self, output: Node, region: _Region) -> str | None:
        """How the region rotates; each spelling is evaluated once."""
        names = {region.source.id: "x", **{each: ("table", each) for each in (self.table.cos, self.table.sin)}}
        key = sizes(region.source), spelled(self.index, region.nodes, names)
        if key not in self.judged:
            self.judged[key] = self._judge(region.source, output)
        return self.judged[key]

    def _judge(self, source: Node, output: Node) -> str | None:
        probed = probe(self.index, self.table.cos)
        shape = sizes(source)
        if probed is None or shape is None:
            return None
        positions, known = probed
        known[source.id] = data = np.random.default_rng(0).standard_normal(shape)
        try:
            rotated = evaluate(self.index.nodes, output.id, known)
        except UnevaluableError:
            return None
        angles = positions[:, None] * frequencies_of(self.table, self.index.graph.config)
        if rotated.shape != data.shape or 2 * angles.shape[1] > shape[-1]:
            return None
        for style, axis in itertools.product(_STYLES, range(len(shape) - 1)):
            if shape[axis] == len(positions):
                spread = angles.reshape(len(positions), *(1,) * (len(shape) - axis - 2), -1)
                if np.allclose(rotated, rotate(data, spread, style, self.table.scaling)):
                    return style
        return None

    def fact(self, output: Node, region: _Region, style: str) -> Rope:
        nodes = self.index.exclusive(region.nodes, output)
        upcast = output.dtype != FLOAT32 and any(node.dtype == FLOAT32 for node in region.nodes)
        return Rope(region.source.id, output.id, nodes, self.table, style, upcast, output.frame, output.where)


def rotate(data: Array, angles: Array, style: str, scaling: float = 1.0) -> Array:
    """The formula: each pair of the first elements is turned by its angle, the rest passes through.

    Args:
        data: ``[..., head_dim]``.
        angles: ``[..., rotary_dim / 2]``, broadcast against the leading dimensions of ``data``.
        style: ``half`` or ``interleaved``, see `Rope`.
        scaling: multiplies the turned elements.
    """
    half = angles.shape[-1]
    if style == "half":
        first, second = slice(0, half), slice(half, 2 * half)
    else:
        first, second = slice(0, 2 * half, 2), slice(1, 2 * half, 2)
    cosine, sine = scaling * np.cos(angles), scaling * np.sin(angles)
    turned = data.copy()
    turned[..., first] = data[..., first] * cosine - data[..., second] * sine
    turned[..., second] = data[..., second] * cosine + data[..., first] * sine
    return turned
