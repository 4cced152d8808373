"""A graph's nodes by id, with their users, and the small steps that every matcher takes along the dataflow.

Matchers rely on the written form that the analysis gives every operator: one name for each (``reshape``, never
``view``), optional arguments by name and only where they differ from torch's default, and nothing that leaves values
as they are (``contiguous``, dropout).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Set
from contextlib import contextmanager
from typing import Any, TypeVar

from kunport_codegen.expression import Scalar, apply, unwrap
from kunport_codegen.facts import Number
from kunport_codegen.graph import DType, Graph, Node, Ref, refs

T = TypeVar("T")
# The user that stands for the graph's own result.
OUTPUT = -1
FLOAT32 = DType("float32")
MODEL = DType("model")
_FLOATING = frozenset(("model", "float32", "float16", "bfloat16", "float64"))


class Index:
    """Producers and users of a graph's tensors. Nodes that do not reach the graph's output do not count as users."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: dict[int, Node] = {node.id: node for node in graph.walk()}
        self.order = {identifier: position for position, identifier in enumerate(self.nodes)}
        self.users: dict[int, list[int]] = {}
        self._constant: dict[int, bool] = {}
        self._reads: dict[int, tuple[int, ...]] = {}
        self._judged: dict[Any, Any] = {}
        self._left_out: Set[int] = frozenset()
        live: set[int] = set()
        pending = [(source, OUTPUT) for source in refs(graph.output)]
        while pending:
            source, user = pending.pop()
            self.users.setdefault(source, []).append(user)
            if source in self.nodes and source not in live:
                live.add(source)
                pending.extend((operand, source) for operand in set(self.reads(self.nodes[source])))
        self.live = live

    def reads(self, node: Node) -> tuple[int, ...]:
        """What a node reads itself; a loop reads what its body carries, and the nodes of the body read the rest."""
        known = self._reads.get(node.id)
        if known is None:
            operands: list[Any] = [node.args, node.kwargs]
            if node.body is not None:
                operands += [[(before, after) for _, before, after in node.body.carried], node.body.skip]
            known = self._reads[node.id] = tuple(refs(operands))
        return known

    def in_order(self, *ops: str) -> list[Node]:
        """The live nodes with one of the operators, in execution order, but for those left out."""
        wanted = set(ops)
        return [node for node in self.nodes.values() if node.op in wanted and self.searched(node)]

    def searched(self, node: Node) -> bool:
        """Whether a fact may be looked for at a node."""
        return node.id in self.live and node.id not in self._left_out

    @contextmanager
    def without(self, nodes: Set[int]) -> Iterator[None]:
        """Inside, no fact is looked for at some nodes."""
        self._left_out = nodes
        try:
            yield
        finally:
            self._left_out = frozenset()

    def producer(self, arg: Any) -> Node | None:
        """The node that made a tensor; None for anything but a reference to one."""
        return self.nodes.get(arg.id) if isinstance(arg, Ref) else None

    def user(self, node: Node) -> Node | None:
        """The one node that reads a tensor, None where there are several or the graph returns it."""
        users = self.users.get(node.id, ())
        return self.nodes.get(users[0]) if len(users) == 1 else None

    def once(self, key: Any, judge: Callable[[], T]) -> T:
        """What ``judge`` gives, asked once for a key: what is spelled the same in every layer is judged once."""
        if key not in self._judged:
            self._judged[key] = judge()
        found: T = self._judged[key]
        return found

    def strip(self, node: Node | None, *ops: str) -> Node | None:
        """The tensor behind any number of the given operators, along their first operand."""
        while node is not None and node.op in ops:
            node = self.producer(node.args[0])
        return node

    def constant(self, identifier: int) -> bool:
        """Whether a tensor depends on sizes and the configuration alone, positions included."""
        pending = [identifier]
        while pending:
            current = pending[-1]
            if current in self._constant:
                pending.pop()
                continue
            node = self.nodes.get(current)
            if node is None or node.op in ("input", "parameter", "mask", "loop", "unknown"):
                self._constant[current] = False
                continue
            operands = self.reads(node)
            missing = [operand for operand in operands if operand not in self._constant]
            if missing:
                pending.extend(missing)
            else:
                self._constant[current] = all(self._constant[operand] for operand in operands)
        return self._constant[identifier]

    def exclusive(self, covered: Iterable[Node], *outputs: Node) -> frozenset[int]:
        """The outputs and those of the covered nodes that serve nothing but them."""
        kept = {node.id for node in outputs}
        inside = {node.id for node in covered} | kept
        leaking = True
        while leaking:
            shared = {each for each in inside - kept if any(user not in inside for user in self.users.get(each, ()))}
            inside -= shared
            leaking = bool(shared)
        return frozenset(inside)

    def ancestors(self, *wanted: int) -> list[Node]:
        """The nodes that some tensors are computed from, themselves included, in execution order."""
        found: set[int] = set()
        pending = list(wanted)
        while pending:
            current = pending.pop()
            if current in self.nodes and current not in found:
                found.add(current)
                pending.extend(self.reads(self.nodes[current]))
        return [self.nodes[each] for each in sorted(found, key=self.order.__getitem__)]

    def sources(
        self, output: Node, through: Container[str], most: float = math.inf
    ) -> Iterator[tuple[Node, list[Node]]]:
        """The tensors that all data of ``output`` comes through, nearest first, and the nodes from there to it.

        Constants do not count as data. The walk ends at the first operator that is not one of ``through``, and after
        ``most`` nodes.
        """
        frontier = {output.id}
        nodes: list[Node] = []
        while frontier:
            node = self.nodes[max(frontier, key=self.order.__getitem__)]
            if nodes and frontier == {node.id} and node.shape is not None:
                yield node, nodes
            if node.op not in through or len(nodes) >= most:
                return
            frontier.discard(node.id)
            nodes.append(node)
            data = [operand for operand in self.reads(node) if not self.constant(operand)]
            if any(operand not in self.nodes for operand in data):
                return
            frontier.update(data)

    def follow(self, node: Node, accept: Callable[[Node], bool], most: float = math.inf) -> list[Node]:
        """The chain of single users after a node, as long as each is accepted, of at most so many."""
        chain: list[Node] = []
        while len(chain) < most and (following := self.user(node)) is not None and accept(following):
            chain.append(following)
            node = following
        return chain


def argument(node: Node, position: int, default: Any = None) -> Any:
    """An operator's argument by position, or torch's default."""
    return node.args[position] if len(node.args) > position else default


def number(arg: Any) -> Number | None:
    """The argument if it is a number, else None."""
    value = unwrap(arg)
    return arg if isinstance(value, int | float) and not isinstance(value, bool) else None


def is_cast(node: Node) -> bool:
    """Whether an operator only casts its operand to a floating type."""
    return node.op == "to" and node.dtype is not None and node.dtype.name in _FLOATING


def combine(op: str, *operands: Number) -> Number:
    """An operator on numbers, with its expression where one of them has one."""
    result = number(apply(op, *operands))
    assert result is not None, "arithmetic on numbers gives numbers"
    return result


_SCALAR_OPS = frozenset(("add", "sub", "mul", "div", "pow", "neg", "sqrt"))


def single(index: Index, arg: Any) -> Number | None:
    """A number, or the one number of a constant tensor without dimensions, with its expression."""
    node = index.producer(arg)
    if node is None:
        return number(arg)
    if node.shape != () or not index.constant(node.id):
        return None
    if node.op == "to":
        return single(index, node.args[0])
    if node.op == "tensor":
        return number(node.args[0])
    operands = [single(index, each) for each in node.args]
    if node.op not in _SCALAR_OPS or node.kwargs or None in operands:
        return None
    try:
        return number(apply(node.op, *operands))
    except (ArithmeticError, TypeError):
        return None


def equal(left: Number | None, right: Number | None) -> bool:
    """Whether two numbers are one by value; a size that the configuration names twice is the same size."""
    return left is not None and right is not None and bool(unwrap(left) == unwrap(right))


def sizes(node: Node | None) -> tuple[int, ...] | None:
    """The plain sizes of a tensor."""
    return None if node is None or node.shape is None else tuple(unwrap(size) for size in node.shape)


def axis(dim: Any, rank: int) -> int | None:
    """A dimension counted from the end (-1 is the last); None if it is not one plain dimension."""
    dim = unwrap(dim)
    if isinstance(dim, list | tuple) and len(dim) == 1:
        dim = unwrap(dim[0])
    if not isinstance(dim, int) or isinstance(dim, bool):
        return None
    return dim if dim < 0 else dim - rank


def over_last(node: Node, source: Node) -> bool:
    """Whether a reduction runs over the last dimension of its operand and keeps it."""
    keeps = node.kwargs.get("keepdim") is True and "dtype" not in node.kwargs
    return source.shape is not None and axis(node.kwargs.get("dim"), len(source.shape)) == -1 and keeps


def swaps_axes(node: Node, first: int, second: int) -> bool:
    """Whether an operator swaps two dimensions (counted from the end) and does nothing else."""
    if node.shape is None:
        return False
    rank = len(node.shape)
    if node.op == "transpose":
        return {axis(node.args[1], rank), axis(node.args[2], rank)} == {first, second}
    if node.op == "permute":
        swapped = list(range(-rank, 0))
        swapped[first], swapped[second] = second, first
        return [axis(each, rank) for each in node.args[1]] == swapped
    return False


def split_number(node: Node, producer: Callable[[Any], Node | None]) -> tuple[Node, Number] | None:
    """The tensor and the number of an operator on one of each, in either order."""
    if len(node.args) != 2 or node.kwargs:
        return None
    for one, other in (node.args, node.args[::-1]):
        tensor, value = producer(one), number(other)
        if tensor is not None and value is not None:
            return tensor, value
    return None


def widest(*candidates: Any) -> Number:
    """The candidate that knows its expression, else the first: they are one size named in several places."""
    numbers = [each for each in candidates if number(each) is not None]
    return next((each for each in numbers if isinstance(each, Scalar)), numbers[0])
