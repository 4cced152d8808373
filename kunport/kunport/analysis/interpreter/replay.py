"""Layers that compute the same are interpreted once: what the first did is written down again for the others.

A run of a module's forward is repeated for another module where nothing that the run read is different there. Both
trees of attributes are walked side by side; what differs is harmless if it is a plain value that the run never looked
at (``layer_idx``, as long as no cache asks for it). A run that reached outside of itself, by writing to an attribute
or to an older tensor, is never repeated. The graph comes out as if every layer had been interpreted, ids included.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kunport_codegen.expression import Expr
from kunport_codegen.graph import Frame, Location, Node

from kunport.analysis.interpreter.copying import Copy
from kunport.analysis.interpreter.likeness import Likeness
from kunport.analysis.values import Instance, Tensor, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

_NUMBERED = re.compile(r"(?:.*\.)?\d+")
_KINDS = 8  # kinds of layers that are remembered for one class
NOTHING = object()


@dataclass(slots=True, eq=False)
class Run:
    """What interpreting a module's forward did.

    Attributes:
        read: the attributes that were read, as (id of the object, name).
        lists: what lists and dictionaries among them held, which the source may change without assigning anything.
        objects: what attributes of objects that are no modules held when they were first read.
        made: ids of the objects that the run itself made.
        repeatable: nothing outside of the run was changed.
        decisions: what it decided, as `Trace` has them.
        nodes, frames: what it left behind; ``ids`` are the ids that it used up, ``first_frame`` its own frame's.
        sizes: the expressions in the nodes' shapes, parts included, once someone asks.
    """

    module: Instance
    inputs: tuple[list[Value], dict[str, Value]]
    ids: range
    first_frame: int
    read: set[tuple[int, str]] = field(default_factory=set)
    lists: list[tuple[Value, Value]] = field(default_factory=list)
    objects: dict[tuple[int, str], tuple[Instance, Value]] = field(default_factory=dict)
    made: dict[int, Instance] = field(default_factory=dict)
    repeatable: bool = True
    decisions: list[tuple[Expr, Any, Location]] = field(default_factory=list)
    result: Value = None
    nodes: list[Node] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    sizes: frozenset[Expr] | None = None


class Replay:
    """The runs that can be repeated, by class and place in the tree, and the one that is being recorded."""

    def __init__(self) -> None:
        self._runs: dict[tuple[int, str], list[Run]] = {}
        self._recording: Run | None = None

    def read(self, value: Instance, name: str) -> None:
        """An attribute is read."""
        if self._recording is not None:
            names = value.attributes if name == "__dict__" else (name,)
            self._recording.read.update((id(value), each) for each in names)
            if value.path is None and id(value) not in self._recording.made:
                self._recording.objects.setdefault((id(value), name), (value, value.attributes.get(name, NOTHING)))
            if isinstance(held := value.attributes.get(name), list | dict):
                self._recording.lists.append((held, held.copy()))

    def made(self, value: Instance) -> None:
        """An object is made: what happens to it inside of the run is nobody else's concern."""
        if self._recording is not None:
            self._recording.made[id(value)] = value

    def changed(self, value: Value) -> None:
        """Something is written to an attribute or an item of the value."""
        if self._recording is not None and id(value) not in self._recording.made:
            self._recording.repeatable = False

    def overwritten(self, cell: Tensor) -> None:
        """A tensor is about to be written to in place."""
        if self._recording is not None and cell.id < self._recording.ids.start:
            self._recording.repeatable = False

    @contextmanager
    def recorded(self, interpreter: Interpreter, module: Instance, inputs: Any) -> Iterator[Run | None]:
        """Records the run inside; the result is to be put into the run. None where it cannot be of use again."""
        path = module.path or ""
        if self._recording is not None or interpreter.turns or not _NUMBERED.fullmatch(path):
            yield None
            return
        trace, states = interpreter.trace, len(interpreter.states)
        run = self._recording = Run(module, inputs, range(trace.ids, trace.ids), len(trace.frames))
        run.lists.extend(
            (each, each.copy()) for each in (*inputs[0], *inputs[1].values()) if isinstance(each, list | dict)
        )
        position, trace.decisions = len(trace.nodes), run.decisions
        try:
            yield run
        finally:
            self._recording = trace.decisions = None
        run.ids = range(run.ids.start, trace.ids)
        run.nodes, run.frames = trace.nodes[position:], trace.frames[run.first_frame :]
        whole = all(node.op != "unknown" for node in run.nodes) and len(interpreter.states) == states
        whole = whole and _is_current(run)
        if run.repeatable and whole and run.frames and _is_plain_result(run.result):
            runs = self._runs.setdefault(_kind(module), [])
            runs.append(run)
            del runs[:-_KINDS]

    def repeat(self, interpreter: Interpreter, module: Instance, inputs: Any) -> Value:
        """What the module gives for the inputs, written down from an earlier run; `NOTHING` where none fits."""
        if self._recording is not None or interpreter.turns:
            return NOTHING
        for run in reversed(self._runs.get(_kind(module), ())):
            likeness = Likeness(interpreter.trace, run.ids.start)
            alike = _is_current(run) and likeness.same(run.inputs, inputs) and likeness.same(run.module, module)
            if not alike or likeness.ambiguous({name for _, name in run.objects}):
                continue
            if likeness.different.isdisjoint(run.read):
                return Copy(interpreter.trace, run, module, likeness).write()
        return NOTHING


def _is_current(run: Run) -> bool:
    """Whether the objects that the run looked into hold what they held: one that layers share changes in between."""
    if any(each.attributes.get(name, NOTHING) is not held for (_, name), (each, held) in run.objects.items()):
        return False
    return all(_held(now) == _held(then) for now, then in run.lists)


def _held(value: Value) -> list[int]:
    return [id(each) for each in (value.values() if isinstance(value, dict) else value)]


def _kind(module: Instance) -> tuple[int, str]:
    return id(module.cls), re.sub(r"\d+", "*", module.path or "")


def _is_plain_result(value: Value) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain_result, value))
    return value is None or (isinstance(value, Tensor) and value.view is None)
