"""What a source computes on random inputs, from where tokens are still apart to where they are apart again.

The inputs are drawn where the source projects tokens one by one (linear layers, convolutions that are known), and
everything from there to a tensor that may be an operator's result is evaluated. A chunk's length that the
configuration gives is made short, so that the result goes through several chunks; for one that is a number in the
source the sequence is made long.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from kunport_codegen.expression import Expr, Scalar, evaluate, fields_of, read_field, symbols_of
from kunport_codegen.facts import Number
from kunport_codegen.graph import Node
from kunport_codegen.recognition.draw import Draw
from kunport_codegen.recognition.evaluate import UnevaluableError
from kunport_codegen.recognition.evaluate import evaluate as evaluate_nodes
from kunport_codegen.recognition.index import MODEL, OUTPUT, Index, is_cast
from kunport_codegen.recognition.rules import Array

from .tokens import axes

_PROJECTIONS = ("linear", "matmul", "addmm", "baddbmm", "embedding")
_CHUNK = 4
_TOKENS = 11
_DIGITS = 9
_FEW = 64
_LARGE = 20_000_000  # elements of a tensor, from which on heads are made few and narrow


# An index: the first sequence and a few channels tell most that is not an operator's result from what is.
Part = tuple[slice | int, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tensor that may play a part: its node, and its numbers, ``[batch, sequence, ...]`` where it has tokens."""

    node: Node
    numbers: Array

    @property
    def sizes(self) -> tuple[int, ...]:
        """All but batch and sequence, where it has them."""
        return self.numbers.shape[2:] if axes(self.node) is not None else self.numbers.shape


@dataclass(frozen=True, slots=True)
class Found:
    """What an operator reads, and what its layer is made with besides sizes."""

    inputs: dict[str, Candidate]
    options: dict[str, Number | str | bool]


@dataclass(slots=True)
class Trial:
    """The numbers of all tensors between the drawn ones and ``output``.

    Attributes:
        output: the tensor that may be an operator's result.
        tokens: tensors with a value for each token, those that are equal once.
        constants: tensors that depend on parameters alone, those that are equal once.
        nodes: every node that was evaluated.
    """

    index: Index
    output: Candidate
    known_results: Collection[int]
    numbers: _Sizes
    tokens: list[Candidate] = field(default_factory=list)
    constants: list[Candidate] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    known: dict[int, Array] = field(default_factory=dict)

    def at(self, output: Node) -> Trial:
        """The same numbers, with a tensor on the way as what may be the result."""
        place = self.index.order[output.id]
        before = [each for each in self.tokens if self.index.order[each.node.id] < place]
        return replace(self, output=_candidate(output, self.known[output.id]), tokens=before)

    def scaled(self, size: float) -> Trial | None:
        """Another trial of the same, with tokens of another size."""
        return run(self.index, self.output.node, self.known_results, size)

    def size(self, value: Number) -> Any:
        """A number of the source, in the trial."""
        return self.numbers(value, {}) if isinstance(value, Scalar) else value

    def of(self, node: Node | None) -> Candidate | None:
        """The candidate that a node is."""
        return None if node is None or node.id not in self.known else _candidate(node, self.known[node.id])

    def equal(self, numbers: Array, part: Part = ()) -> bool:
        """Whether the output, or a part of it, has these numbers, up to the rounding of sums in another order."""
        wanted = self.output.numbers[part]
        if numbers.shape != wanted.shape or not np.isfinite(numbers).all():
            return False
        return bool(np.abs(numbers - wanted).max() <= 1e-7 * max(1e-3, float(np.abs(wanted).max())))


def outputs(index: Index, anchors: Collection[Node]) -> list[Node]:
    """The tensors over tokens that all of what the anchors lead to goes through, the last first."""
    frontier, seen = {node.id for node in anchors}, set[int]()
    found: list[Node] = []
    while frontier:
        current = min(frontier, key=index.order.__getitem__)
        node = index.nodes[current]
        single = frontier == {current} and len(seen) >= len(anchors)
        frontier.discard(current)
        seen.add(current)
        if node.op in _PROJECTIONS and single and _projects(index, node):
            break
        widened = is_cast(node) and node.dtype != MODEL  # by what reads it
        if single and axes(node) is not None and not widened:
            found.append(node)
        users = index.users.get(current, ())
        if OUTPUT in users:
            break
        frontier.update(user for user in users if user not in seen and user in index.live)
    return found[::-1]


def run(index: Index, output: Node, known_results: Collection[int], size: float = 1.0) -> Trial | None:
    """The trial of everything up to a tensor; None where something on the way cannot be evaluated.

    What is drawn for tokens is of about the given size.
    """
    starts = _starts(index, output, known_results)
    if starts is None:
        return None
    leaves, nodes = starts
    sizes = _Sizes(index, nodes)
    if max((sizes.elements(node) for node in nodes), default=0) > _LARGE:
        named = (each for each in output.shape or () if isinstance(each, Scalar))
        sizes = _Sizes(index, nodes, {field for each in named for field in fields_of(each.expr)})
    known = _numbers(index, output, leaves, sizes, size)
    if known is None:
        return None
    made = [node for node in (*leaves, *nodes) if node.id in known and isinstance(known[node.id], np.ndarray)]
    constant = _constants(index, made)
    trial = Trial(index, _candidate(output, known[output.id]), known_results, sizes, nodes=list(nodes), known=known)
    tokens = (node for node in made if axes(node) is not None and node is not output)
    trial.tokens = _distinct(_candidate(node, known[node.id]) for node in tokens)
    trial.constants = _distinct(_candidate(node, known[node.id]) for node in made if node.id in constant)
    return trial


def _numbers(
    index: Index, output: Node, leaves: Iterable[Node], number: _Sizes, size: float
) -> dict[int, Array] | None:
    """The numbers of the output and of all that it is made of; None where something has no rule, or is too large."""
    draw = Draw()
    known: dict[int, Array] = {}
    for leaf in leaves:
        shape = [number(each, {}) if isinstance(each, Scalar) else each for each in leaf.shape or ()]
        if any(not isinstance(each, int) for each in shape):
            return None
        known[leaf.id] = draw.standard_normal(shape) * (1.0 if leaf.op == "parameter" else size)
    try:
        evaluate_nodes(index.nodes, output.id, known, number)
    except UnevaluableError:
        return None
    return known


def _starts(index: Index, output: Node, known_results: Collection[int]) -> tuple[list[Node], list[Node]] | None:
    """What is drawn, and the nodes between that and the output."""
    leaves: dict[int, Node] = {}
    inner: dict[int, Node] = {}
    pending = [output.id]
    while pending:
        node = index.nodes.get(pending.pop())
        if node is None or node.id in leaves or node.id in inner:
            continue
        if node.op in ("input", "unknown", "mask"):
            return None
        drawn = node.op == "parameter" or node.id in known_results or _projects(index, node)
        (leaves if drawn else inner)[node.id] = node
        if not drawn:
            pending.extend(index.reads(node))
            if node.body is not None:
                pending.extend(each for part in node.body.nodes for each in index.reads(part))
    order = index.order.__getitem__
    return [leaves[each] for each in sorted(leaves, key=order)], [inner[each] for each in sorted(inner, key=order)]


def _projects(index: Index, node: Node) -> bool:
    """Whether it multiplies each token by a matrix of parameters."""
    if node.op not in _PROJECTIONS:
        return False
    return node.op in ("linear", "embedding") or any(
        source is not None and source.op == "parameter"
        for source in (index.strip(index.producer(arg), "to", "transpose", "getitem") for arg in node.args)
    )


class _Sizes:
    """Numbers of the source for the trial's own sequence, for short chunks, and for other fields that are to be small.

    A size follows from its fields as it does in the source; one that does not is found out by operands that do not fit.
    """

    def __init__(self, index: Index, nodes: Iterable[Node], small: Collection[str] = ()) -> None:
        self.config = index.graph.config
        self.short: set[str] = set(small)
        self.symbols = {"batch": 2, "sequence": _TOKENS}
        for node in nodes:
            for size in _scalars((node.args, node.kwargs, node.shape)):
                for part in _chunked(size.expr):
                    if isinstance(part, Expr) and part.op == "field":
                        self.short.add(part.args[0])
                    elif isinstance(part, Expr) and part.op == "const" and isinstance(part.args[0], int):
                        self.symbols = {"batch": 1, "sequence": max(self.symbols["sequence"], 2 * part.args[0] + 3)}

    def __call__(self, scalar: Scalar, turns: Mapping[str, int]) -> Any:
        expr = scalar.expr
        if not self.short and not symbols_of(expr):
            return scalar.value
        try:
            return evaluate(expr, self._field, {**self.symbols, **turns})
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            raise UnevaluableError(str(expr)) from error

    def elements(self, node: Node) -> int:
        """How many a tensor has; 0 where that is not known."""
        try:
            return prod(self(each, {}) if isinstance(each, Scalar) else each for each in node.shape or ())
        except (UnevaluableError, TypeError):
            return 0

    def _field(self, path: str) -> Any:
        return _CHUNK if path in self.short else read_field(self.config, path)


def _scalars(value: Any) -> Iterator[Scalar]:
    if isinstance(value, Scalar):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _scalars(item)
    elif isinstance(value, dict):
        yield from _scalars(list(value.values()))
    elif isinstance(value, slice):
        yield from _scalars((value.start, value.stop, value.step))


def _chunked(expr: Expr) -> Iterator[Any]:
    """What the sequence is divided by in an expression."""
    if expr.op in ("mod", "floordiv") and isinstance(expr.args[0], Expr) and "sequence" in symbols_of(expr.args[0]):
        yield expr.args[1] if isinstance(expr.args[1], Expr) else Expr("const", (expr.args[1],))
    for arg in expr.args:
        if isinstance(arg, Expr):
            yield from _chunked(arg)


def _constants(index: Index, made: Iterable[Node]) -> set[int]:
    """The tensors that depend on parameters, and on nothing else that was drawn."""
    found: set[int] = set()
    for node in sorted(made, key=lambda each: index.order[each.id]):
        reads = index.reads(node)
        if node.op == "parameter" or (reads and found.issuperset(reads)):
            found.add(node.id)
    return found


def _candidate(node: Node, numbers: Array) -> Candidate:
    place = axes(node)
    if place is None or numbers.ndim != len(node.shape or ()):
        return Candidate(node, numbers)
    batch, sequence, rest = place
    return Candidate(node, np.transpose(numbers, (batch, sequence, *rest)))


def _distinct(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Each tensor once: of those with equal numbers the last in the model's dtype, if one is, else the first."""
    found: list[Candidate] = []
    alike: dict[object, list[int]] = {}  # a few elements tell most apart: to round and compare all takes long
    for each in candidates:
        if not np.issubdtype(each.numbers.dtype, np.floating):
            continue
        few = _rounded(each.numbers.reshape(-1)[:_FEW])
        places = alike.setdefault((each.numbers.shape, few.tobytes()), [])
        known = next((place for place in places if _equal(found[place].numbers, each.numbers)), None)
        if known is None:
            places.append(len(found))
            found.append(each)
        elif each.node.dtype is not None and each.node.dtype.name == "model":
            found[known] = each
    return found


def _equal(numbers: Array, others: Array) -> bool:
    return np.array_equal(numbers, others) or np.array_equal(_rounded(numbers), _rounded(others), equal_nan=True)


def _rounded(numbers: Array) -> Array:
    return np.round(numbers, _DIGITS) + 0.0  # no zero is negative
