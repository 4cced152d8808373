"""What an interpretation leaves behind: nodes, frames, guards and notes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from kunport_codegen.expression import Expr, fields_of, origins_of, symbols_of
from kunport_codegen.graph import Body, Choice, Frame, Guard, Location, Node

from kunport.analysis.shapes import TensorType

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
# The place of a layer's own entry in a field.
INDEXED = re.compile(r"\[\d+\]")


def origins(decided: Iterable[Expr]) -> frozenset[str]:
    """The fields that decisions were taken on, without the place of a layer's own entry."""
    return frozenset(INDEXED.sub("", field) for expr in decided for field in origins_of(expr))


class Trace:
    """The record of a run.

    Attributes:
        nodes: the list that new nodes go to: the graph's, or a loop body's.
        where: the source line that runs now.
        frame: id of the innermost frame.
        sizes: decisions that were taken on sizes.
        constructed: the constructor's nodes by id, once the model is there.
        decisions: every decision taken, if someone keeps them: expression, outcome and line.
        taken: the decisions on the configuration so far: expression and line.
        handed: the class or function that a function of the source returned last, and the fields that picked it.
        counts: the fields of each number that something was counted by.
        returned: how many of them had been taken when a function of the source last returned.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.frames: list[Frame] = []
        self.where = Location("", 0)
        self.frame = 0
        self.sizes: dict[str, Guard] = {}
        self.constructed: dict[int, Node] = {}
        self.decisions: list[tuple[Expr, Any, Location]] | None = None
        self._made: dict[int, Node] = {}
        self._ids = 0
        self.taken: list[tuple[Expr, Location]] = []
        self.returned = 0
        self.handed: tuple[Any, frozenset[str]] = None, frozenset()
        self.counts: list[frozenset[str]] = []
        self._guards: dict[str, Guard] = {}
        self._counted: dict[Choice, None] = {}
        self._choices: dict[Choice, None] = {}
        self._notes: dict[str, None] = {}

    @property
    def ids(self) -> int:
        """How many ids were given out."""
        return self._ids

    def skip_ids(self, count: int) -> None:
        """Give out so many ids to nodes that were written down elsewhere."""
        self._ids += count

    def new_id(self) -> int:
        self._ids += 1
        return self._ids - 1

    def emit(
        self,
        op: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
        kind: TensorType | None = None,
        body: Body | None = None,
    ) -> Node:
        """Appends a node made on the current line in the current frame."""
        shape, dtype = (kind.shape, kind.dtype) if kind is not None else (None, None)
        node = Node(self.new_id(), op, args, kwargs or {}, shape, dtype, self.frame, self.where, body)
        self.nodes.append(node)
        self._made[node.id] = node
        return node

    def node(self, made: int) -> Node | None:
        """The node of an id, None of one that another run's was written down again for."""
        return self._made.get(made)

    def lay_out(self, made: int) -> None:
        """The source makes the result of the node of this id contiguous."""
        if made in self._made:
            self._made[made].contiguous = True

    def begin(self, name: str) -> None:
        """The two frames that every graph has: 0 for the constructor, 1 for the model's forward."""
        self.frames = [
            Frame(0, None, "constructor", name, "", self.where),
            Frame(1, None, "module", name, "", self.where),
        ]
        for node in self.nodes:  # what a file runs when it is imported comes before any of the model
            node.frame = 0

    @contextmanager
    def entered(self, kind: str, name: str, path: str = "") -> Iterator[Frame]:
        """A frame around what runs inside. It is dropped where that makes nothing."""
        frame = Frame(len(self.frames), self.frame, kind, name, path, self.where)
        self.frames.append(frame)
        before = self._ids
        with self.inside(frame):
            yield frame
        if self._ids == before and self.frames[-1] is frame:
            self.frames.pop()

    @contextmanager
    def inside(self, frame: Frame) -> Iterator[None]:
        """Nodes made inside belong to the frame."""
        outer, self.frame = self.frame, frame.id
        try:
            yield
        finally:
            self.frame = outer

    @contextmanager
    def collected(self) -> Iterator[list[Node]]:
        """Nodes made inside go to the list that this gives."""
        outer, self.nodes = self.nodes, []
        try:
            yield self.nodes
        finally:
            self.nodes = outer

    def decide(self, expr: Expr, outcome: Any) -> None:
        """A decision was taken on a scalar: a guard where it reads the configuration, a note where it reads sizes."""
        if self.decisions is not None:
            self.decisions.append((expr, outcome, self.where))
        if sizes := sorted(symbols_of(expr)):
            if expr.op in _COMPARISONS and expr.args[0] == expr.args[1]:
                return  # of a size with itself: there is no other case
            case = f"{expr} is {str(outcome).lower() if isinstance(outcome, bool) else repr(outcome)}"
            self.note(f"{self.where}: a choice by {' and '.join(sizes)}; what was read is the case in which {case}")
            self.sizes.setdefault(f"{expr} is {outcome!r}", Guard(expr, outcome, self.where))
        elif fields_of(expr):
            self.taken.append((expr, self.where))
            self._guards.setdefault(f"{expr} is {outcome!r}", Guard(expr, outcome, self.where))
        elif expr.chosen:
            self.taken.append((expr, self.where))

    def taken_since(self, position: int) -> list[Expr]:
        """The decisions of the current line that were taken after so many others."""
        return [expr for expr, where in self.taken[position:] if where == self.where]

    def picking(self, position: int) -> frozenset[str]:
        """The fields of decisions after so many others, but for those that functions took that were called since."""
        return origins(expr for expr, _ in self.taken[max(position, self.returned) :])

    def chose(self, decided: list[Expr], first: int, last: int, either: frozenset[str] = frozenset()) -> None:
        """Lines of the current file run as they do because of decisions; other lines use some names, too."""
        self.chosen(origins(decided), first, last, either)

    def chosen(self, fields: Iterable[str], first: int, last: int, either: frozenset[str] = frozenset()) -> None:
        """Lines of the current file run as they do because of fields; other lines use some names, too."""
        self._choices.setdefault(Choice(tuple(sorted(fields)), self.where.file, first, last, either))

    def counted(self, fields: Iterable[str], first: int, last: int) -> None:
        """Lines of the current file run as often as fields say."""
        self._counted.setdefault(Choice(tuple(sorted(fields)), self.where.file, first, last))

    def note(self, text: str) -> None:
        self._notes.setdefault(text)

    @property
    def guards(self) -> list[Guard]:
        return list(self._guards.values())

    @property
    def choices(self) -> list[Choice]:
        return list(self._choices)

    @property
    def counters(self) -> list[Choice]:
        return list(self._counted)

    @property
    def notes(self) -> list[str]:
        return list(self._notes)
