"""Rotations of query and key by their position.

For given tables a rotation is a linear map of the tensor. So the nodes between a tensor and its rotation are
evaluated on random numbers and compared with the formula: pairs, signs, the rotated share and what passes through
unrotated are then all known to be right, however the source spells them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kunport_codegen.expression import Scalar, symbols_of
from kunport_codegen.facts import Rope, RopeTable
from kunport_codegen.graph import Node, refs

from .draw import Draw
from .evaluate import UnevaluableError, evaluate
from .index import FLOAT32, Index, sizes
from .rules import Array
from .spelling import spelled
from .tables import frequencies_of, probe


@dataclass(slots=True, frozen=True)
class Form:
    """What `facts.Rope` says of a rotation."""

    style: str
    regrouped: bool = False
    backwards: bool = False


# Operators that a rotation may be spelled with.
_LINEAR = frozenset(
    (
        *("add", "sub", "mul", "neg", "to", "cat", "stack", "getitem", "item", "chunk", "split", "tensor_split"),
        *("unbind", "flatten", "reshape", "unflatten", "unsqueeze", "squeeze", "transpose", "permute"),
        *("view_as_complex", "view_as_real", "empty_like", "zeros_like", "setitem"),
    )
)
_LONGEST = 48  # operators of a rotation, and after one of its products: the longest spelling known has under thirty
# Style, whether pairs are taken apart, and whether they turn the other way.
_FORMS = [
    Form(style, regrouped, backwards)
    for backwards in (False, True)
    for style, regrouped in (("half", False), ("interleaved", False), ("interleaved", True))
]


def find_ropes(index: Index, tables: list[RopeTable]) -> list[Rope]:
    """The rotations by the given tables, in order of execution."""
    judged: dict[Any, Form | None] = {}
    found: dict[int, Rope] = {}  # by its result: of tables in one another, the nearest to it comes last
    for table in tables:
        reader = _Reader(index, table, judged)
        covered: set[int] = set()
        for product in reader.products():
            rope = None if product.id in covered else reader.rotation(product)
            if rope is not None:
                found[rope.output] = rope
                covered |= rope.nodes
    return sorted(found.values(), key=lambda rope: index.order[rope.output])


@dataclass(slots=True)
class _Region:
    """The nodes between a tensor, ``source``, and its rotation."""

    source: Node
    nodes: list[Node]


class _Reader:
    """Finds what one table rotates."""

    def __init__(self, index: Index, table: RopeTable, judged: dict[Any, Form | None]) -> None:
        self.index, self.table, self.judged = index, table, judged
        made = spelled(index, index.ancestors(table.cos, table.sin), {})
        self.names = {table.sin: (made, "sin"), table.cos: (made, "cos")}
        # Constants that are made of a table -> that table, or both: they may lie in one tensor until they are used.
        self.origins: dict[int, set[int]] = {table.cos: {table.cos}, table.sin: {table.sin}}
        pending = [table.cos, table.sin]
        while pending:
            current = pending.pop()
            for user in index.users.get(current, ()):
                if user not in index.nodes or not index.constant(user):
                    continue
                known = self.origins.setdefault(user, set())
                if not self.origins[current] <= known:
                    known |= self.origins[current]
                    pending.append(user)

    def products(self) -> list[Node]:
        """The multiplications of data by a table, in order."""
        users = {
            user for origin in self.origins for user in self.index.users.get(origin, ()) if user in self.index.nodes
        }
        nodes = [self.index.nodes[each] for each in users if not self.index.constant(each)]
        products = (node for node in nodes if node.op == "mul" and self.index.searched(node))
        return sorted(products, key=lambda node: self.index.order[node.id])

    def rotation(self, product: Node) -> Rope | None:
        """The largest rotation that a product belongs to."""
        rope = None
        for output in self.index.follow(product, lambda user: user.op in _LINEAR, most=_LONGEST):
            found, smaller = None, rope
            for region in self.regions(output):
                casts = output.dtype != region.source.dtype and (smaller is not None or output.op == "to")
                form = None if casts else self.form(output, region)  # a cast that follows it is no part of a rotation
                if form is not None and (found is None or form.regrouped):  # taken apart before it turns
                    rope = found = self.fact(output, region, form)
        return rope

    def regions(self, output: Node) -> Iterator[_Region]:
        """The nodes from ``output`` back to tensors of its size that read both tables on their way to it."""
        for source, nodes in self.index.sources(output, _LINEAR, most=_LONGEST):
            read = (operand for node in nodes for operand in refs((node.args, node.kwargs)))
            tables = set[int]().union(*(self.origins.get(operand, ()) for operand in read))
            if not tables >= {self.table.cos, self.table.sin} or sizes(source) != sizes(output):
                continue
            if any(self.scales_by_position(node) for node in nodes):
                continue
            before = self.index.producer(source.args[0]) if source.op == "to" and source.dtype == FLOAT32 else None
            if before is not None and output.dtype in (before.dtype, FLOAT32):
                yield _Region(before, [source, *nodes])
            elif output.dtype in (source.dtype, FLOAT32):
                yield _Region(source, list(nodes))

    def scales_by_position(self, node: Node) -> bool:
        """Whether an operator multiplies by numbers of positions that are not the table's.

        At the few positions that are tried they may all be 1.
        """
        operands = [self.index.nodes[each] for each in refs(node.args)] if node.op in ("mul", "add", "sub") else []
        others = (each for each in operands if self.index.constant(each.id) and each.id not in self.origins)
        return any(isinstance(size, Scalar) and symbols_of(size.expr) for each in others for size in each.shape or ())

    def form(self, output: Node, region: _Region) -> Form | None:
        """How the region rotates; each spelling is evaluated once."""
        key = sizes(region.source), spelled(self.index, region.nodes, {region.source.id: "x", **self.names})
        if key not in self.judged:
            self.judged[key] = self._judge(region.source, output)
        return self.judged[key]

    def _judge(self, source: Node, output: Node) -> Form | None:
        probed, other = probe(self.index, self.table.cos), probe(self.index, self.table.sin)
        shape = sizes(source)
        if probed is None or other is None or shape is None or not np.array_equal(probed[0], other[0]):
            return None
        positions, known = probed[0], {**probed[1], **other[1]}  # each may count positions for itself
        known[source.id] = data = Draw().standard_normal(shape)
        try:
            rotated = evaluate(self.index.nodes, output.id, known)
        except UnevaluableError:
            return None
        angles = positions[:, None] * frequencies_of(self.table, self.index.graph.config)
        if rotated.shape != data.shape or 2 * angles.shape[1] > shape[-1]:
            return None
        for form, axis in itertools.product(_FORMS, range(len(shape) - 1)):
            if shape[axis] <= len(positions):  # fewer where a table of all positions is cut to those of the tokens
                spread = angles[: shape[axis]].reshape(shape[axis], *(1,) * (len(shape) - axis - 2), -1)
                # One row tells most forms apart, and is a small part of the tensor.
                row = tuple(slice(None) if at in (axis, len(shape) - 1) else slice(1) for at in range(len(shape)))
                if all(
                    np.allclose(rotated[part], rotate(data[part], spread, form, self.table.scaling))
                    for part in (row, ...)
                ):
                    return form
        return None

    def fact(self, output: Node, region: _Region, form: Form) -> Rope:
        nodes = self.index.exclusive(region.nodes, output)
        upcast = region.source.dtype != FLOAT32 and any(node.dtype == FLOAT32 for node in region.nodes)
        return Rope(
            input=region.source.id,
            output=output.id,
            nodes=nodes,
            table=self.table,
            style=form.style,
            upcast=upcast,
            frame=output.frame,
            where=output.where,
            returns=output.dtype == region.source.dtype,
            regrouped=form.regrouped,
            backwards=form.backwards,
        )


def rotate(data: Array, angles: Array, form: Form, scaling: float = 1.0) -> Array:
    """The formula: each pair of the first elements is turned by its angle, the rest passes through.

    Args:
        data: ``[..., head_dim]``.
        angles: ``[..., rotary_dim / 2]``, broadcast against the leading dimensions of ``data``.
        form: which elements make a pair, where they go, and which way they turn; see `Rope`.
        scaling: multiplies the turned elements.
    """
    half = angles.shape[-1]
    if form.style == "half":
        first, second = slice(0, half), slice(half, 2 * half)
    else:
        first, second = slice(0, 2 * half, 2), slice(1, 2 * half, 2)
    cosine, sine = scaling * np.cos(angles), scaling * np.sin(-angles if form.backwards else angles)
    turned = data.copy()
    turned[..., first] = data[..., first] * cosine - data[..., second] * sine
    turned[..., second] = data[..., second] * cosine + data[..., first] * sine
    if form.regrouped:
        turned[..., : 2 * half] = np.concatenate((turned[..., first], turned[..., second]), axis=-1)
    return turned
