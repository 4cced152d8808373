"""Layers that compute the same, told by comparing their nodes one by one.

What is recognised in one layer holds for all that repeat it: the same operators from the same lines, on operands and
parameters of the same kind, that read the same of the layer before and of the rest of the model, and of which the same
is read by the layer after and the rest. Nothing is taken from how the graph was made.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kunport_codegen.expression import Expr, Scalar
from kunport_codegen.graph import Frame, Graph, Node, Ref, refs

from .index import Index

_NUMBERED = re.compile(r"(?:.*\.)?\d+")
_NUMBERED_SIZE = re.compile(r"(?:data|turn)_\d+(?:_\d+)?")  # how sizes that depend on data, or on a turn, are named

_PLAIN = frozenset((int, str, float, bool, type(None)))
_CONSTRUCTOR = 0  # its frame
Shape = tuple[int | Scalar, ...] | None


@dataclass(slots=True, eq=False)
class Stretch:
    """What one call of a layer computes.

    Attributes:
        path: of the layer's module.
        number: its place among all stretches.
        frames: its calls, its own first.
        nodes: its nodes in order, those of loop bodies included; before them what the constructor made for it alone.
        ids: every tensor that it names, in order.
        reads: every tensor of elsewhere, as often as it is read, in order.
        readers: for each of its tensors those that read it elsewhere, in order.
    """

    path: str
    number: int
    frames: list[int] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    readers: list[list[int]] = field(default_factory=list)

    def relative(self, path: str) -> tuple[bool, str]:
        """Whether a path lies in the layer, and what of it does."""
        inside = path == self.path or path.startswith(f"{self.path}.")
        return inside, path[len(self.path) :] if inside else path


class Repeats:
    """The stretches of a graph, and which of them repeat an earlier one.

    Attributes:
        owner: tensor -> the stretch that names it, and where in it.
        pairs: the stretches that compute the same as an earlier one, each after the first that does.
        calls: the call of each layer that repeats another -> the other's.
        nodes: those of all stretches that repeat another.
    """

    def __init__(self, index: Index) -> None:
        self._index, self._graph = index, index.graph
        self.stretches = _stretches(index)
        self.owner = {each: (stretch, at) for stretch in self.stretches for at, each in enumerate(stretch.ids)}
        for stretch in self.stretches:
            self._look_around(stretch)
        self._kinds = self._sorted_by_kind()
        first: dict[Any, Stretch] = {}
        alike = [(first.setdefault(self._place(each), each), each) for each in self.stretches]
        self.pairs = [(lead, each) for lead, each in alike if lead is not each]
        self.calls = {each.frames[0]: lead.frames[0] for lead, each in self.pairs}
        self.nodes = {node.id for _, each in self.pairs for node in each.nodes}

    def _look_around(self, stretch: Stretch) -> None:
        index, inside = self._index, set(stretch.ids)
        for node in stretch.nodes:
            stretch.reads.extend(each for each in index.reads(node) if each not in inside)
        for each in stretch.ids:
            users = [user for user in index.users.get(each, ()) if user not in inside]
            stretch.readers.append(sorted(set(users), key=lambda user: index.order.get(user, -1)) if users else [])

    def _sorted_by_kind(self) -> list[int]:
        """For each stretch, the number of the first one with equal nodes."""
        known: dict[Any, list[Stretch]] = {}
        kinds = []
        for stretch in self.stretches:
            key = tuple((node.op, node.where.line) for node in stretch.nodes)
            leads = known.setdefault(key, [])
            lead = next((each for each in leads if Comparison(self._index, each, stretch).equal()), None)
            if lead is None:
                leads.append(lead := stretch)
            kinds.append(lead.number)
        return kinds

    def _place(self, stretch: Stretch) -> Any:
        """What a stretch is and reads, and what reads it; tensors of its neighbours by their place in them."""
        live = self._index.live
        reads = tuple(self._seen(stretch, each) for each in stretch.reads)
        readers = tuple(tuple(self._seen(stretch, each) for each in group) for group in stretch.readers)
        return self._kinds[stretch.number], reads, readers, tuple(node.id in live for node in stretch.nodes)

    def _seen(self, stretch: Stretch, identifier: int) -> Any:
        """A tensor of elsewhere as a stretch sees it."""
        owner, at = self.owner.get(identifier, (None, 0))
        if owner is None or abs(owner.number - stretch.number) != 1:
            return identifier
        return owner.number - stretch.number, self._kinds[owner.number], at


class Comparison:
    """Compares two stretches, and translates from one to the other."""

    def __init__(self, index: Index, one: Stretch, other: Stretch) -> None:
        self._graph, self._one, self._other = index.graph, one, other
        # By identity: the graph keeps expressions and shapes alive, and most of them stand in many places.
        self._judged: dict[int, bool] = index.once("expressions and shapes that name sizes", dict)
        self._ids = dict(zip(one.ids, other.ids, strict=False))
        self._frames = dict(zip(one.frames, other.frames, strict=False))
        self._inside = set(other.ids)
        self._alike: dict[tuple[int, int], bool] = {}
        self._sizes: dict[Expr, Expr] = {}
        self._taken: dict[Expr, Expr] = {}

    def equal(self) -> bool:
        """Whether the stretches compute the same from what they read elsewhere."""
        one, other = self._one, self._other
        sized = (len(one.ids), len(one.nodes), len(one.frames)) == (len(other.ids), len(other.nodes), len(other.frames))
        return (
            sized
            and all(map(self._same_frame, one.frames, other.frames))
            and all(map(self._same_node, one.nodes, other.nodes))
        )

    def _same_frame(self, one: int, other: int) -> bool:
        then, now = self._graph.frames[one], self._graph.frames[other]
        return (
            (then.kind, then.name, then.where, list(then.inputs)) == (now.kind, now.name, now.where, list(now.inputs))
            and self._same_caller(then.parent, now.parent)
            and self._one.relative(then.path) == self._other.relative(now.path)
            and self._same_tensors(then, now)
        )

    def _same_caller(self, one: int | None, other: int | None) -> bool:
        return one == other if one is None else self._frames.get(one, one) == other

    def _same_tensors(self, then: Frame, now: Frame) -> bool:
        """Whether two calls take and give the same tensors; numbers that they take show in what they compute."""
        sides = (list(refs([list(each.inputs.values()), each.output])) for each in (then, now))
        one, other = sides
        return len(one) == len(other) and all(map(self._same_tensor, one, other))

    def _same_tensor(self, one: int, other: int) -> bool:
        known = self._ids.get(one)
        return known == other if known is not None else other not in self._inside

    def _same_node(self, one: Node, other: Node) -> bool:
        same = (
            one.op == other.op
            and (one.where is other.where or one.where == other.where)
            and (one.dtype is other.dtype or one.dtype == other.dtype)
            and one.contiguous == other.contiguous
            and self._frames.get(one.frame, one.frame) == other.frame
            and self._same_shape(one.shape, other.shape)
            and (not (one.kwargs or other.kwargs) or self._same(one.kwargs, other.kwargs))
        )
        if not same or (one.body is None) is not (other.body is None):
            return False
        if one.body is not None and other.body is not None:
            ends = ((body.variable, body.carried, body.skip) for body in (one.body, other.body))
            if not self._same_ends(*ends):
                return False
        return self._same_parameter(one, other) if one.op == "parameter" else self._same(one.args, other.args)

    def _same_shape(self, one: Shape, other: Shape) -> bool:
        """Whether shapes are the same. Those of layers that the analysis read once are the same object."""
        return (one is other and (one is None or not self._is_named(one))) or self._same(one, other)

    def _same_ends(self, one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
        named, others = ([[Ref(each[0]), *each[1:]] for each in side[1]] for side in (one, other))
        return self._same([Ref(one[0]), named, one[2]], [Ref(other[0]), others, other[2]])

    def _same_parameter(self, one: Node, other: Node) -> bool:
        mine, its = (self._graph.parameters.get(each.args[0]) for each in (one, other))
        if self._one.relative(one.args[0]) != self._other.relative(other.args[0]) or mine is None or its is None:
            return False
        return self._same(mine.shape, its.shape) and (mine.dtype, mine.buffer) == (its.dtype, its.buffer)

    def _same(self, one: Any, other: Any) -> bool:
        kind = type(one)
        if kind is not type(other):
            return False
        if kind is Ref:
            return self._same_tensor(one.id, other.id)
        if one is other and kind in _PLAIN:
            return True
        if kind is Scalar:
            return bool(one.value == other.value) and self._same_expression(one.expr, other.expr)
        if kind is tuple or kind is list:
            return len(one) == len(other) and all(map(self._same, one, other))
        if kind is dict:
            return list(one) == list(other) and all(map(self._same, one.values(), other.values()))
        if kind is slice:
            return self._same((one.start, one.stop, one.step), (other.start, other.stop, other.step))
        return bool(one == other)

    def _same_expression(self, one: Expr, other: Expr) -> bool:
        """Whether expressions are equal but for the names of sizes, which have to differ in the same way everywhere."""
        if type(one) is not Expr or type(other) is not Expr:
            return type(one) is type(other) and one == other
        if one is other and not self._names_sizes(one):
            return True
        if (known := self._alike.get((id(one), id(other)))) is None:
            known = self._alike[id(one), id(other)] = self._compare_expressions(one, other)
        return known

    def _compare_expressions(self, one: Expr, other: Expr) -> bool:
        if one.op != other.op or len(one.args) != len(other.args):
            return False
        if one.op == "symbol" and self._names_sizes(one) and self._names_sizes(other):
            return self._sizes.setdefault(one, other) == other and self._taken.setdefault(other, one) == one
        return all(map(self._same_expression, one.args, other.args))

    def expression(self, expr: Expr) -> Expr:
        """An expression of the one with the other's sizes."""
        if not self._names_sizes(expr):
            return expr
        if not self._sizes:
            self.equal()
        if expr.op == "symbol":
            return self._sizes.get(expr, expr)
        return Expr(expr.op, tuple(self.expression(each) if isinstance(each, Expr) else each for each in expr.args))

    def _is_named(self, shape: tuple[int | Scalar, ...]) -> bool:
        """Whether such a size is part of a shape."""
        known = self._judged.get(id(shape))
        if known is None:
            sizes = (each.expr for each in shape if isinstance(each, Scalar))
            known = self._judged[id(shape)] = any(map(self._names_sizes, sizes))
        return known

    def _names_sizes(self, expr: Expr) -> bool:
        """Whether a size that depends on data or on a loop's turn is part of an expression."""
        known = self._judged.get(id(expr))
        if known is None:
            if expr.op == "symbol":
                known = _NUMBERED_SIZE.fullmatch(expr.args[0]) is not None
            else:
                known = any(isinstance(each, Expr) and self._names_sizes(each) for each in expr.args)
            self._judged[id(expr)] = known
        return known


def repeats_of(index: Index) -> Repeats:
    """The repeats of a graph, looked for once."""
    return index.once("repeats", lambda: Repeats(index))


def layer_calls(graph: Graph) -> dict[int, int]:
    """For each call inside of a layer, the layer's: the outermost call of a numbered module around it."""
    outermost: dict[int, int] = {}
    for frame in graph.frames:
        around = outermost.get(frame.parent) if frame.parent is not None else None
        if around is None and frame.kind == "module" and _NUMBERED.fullmatch(frame.path):
            around = frame.id
        if around is not None:
            outermost[frame.id] = around
    return outermost


def _stretches(index: Index) -> list[Stretch]:
    """The layers' calls; of layers that are called several times, none."""
    frames, outermost = index.graph.frames, layer_calls(index.graph)
    calls = Counter(frames[each].path for each in set(outermost.values()))
    found: dict[int, Stretch] = {}
    for call, around in outermost.items():
        if calls[path := frames[around].path] == 1:
            found.setdefault(around, Stretch(path, len(found))).frames.append(call)
    home = {node.id: found.get(outermost.get(node.frame, -1)) for node in index.nodes.values()}
    for node in reversed(index.nodes.values()):
        if node.frame == _CONSTRUCTOR and node.id in index.live:
            readers = {home.get(user) for user in index.users[node.id]}
            home[node.id] = readers.pop() if len(readers) == 1 else None
    for node in index.nodes.values():
        stretch = home[node.id]
        if stretch is not None:
            stretch.nodes.append(node)
            stretch.ids.extend(_named_by(node))
    return list(found.values())


def _named_by(node: Node) -> Iterable[int]:
    yield node.id
    if node.body is not None:
        yield node.body.variable
        yield from (inner for inner, _, _ in node.body.carried)
