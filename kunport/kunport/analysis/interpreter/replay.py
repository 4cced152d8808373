"""Layers that compute the same are interpreted once: what the first did is written down again for the others.

A run of a module's forward is repeated for another module where nothing that the run read is different there. Both
trees of attributes are walked side by side; what differs is harmless if it is a plain value that the run never looked
at (``layer_idx``, as long as no cache asks for it). A run that reached outside of itself, by writing to an attribute
or to an older tensor, is never repeated. The graph comes out as if every layer had been interpreted, ids included.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kunport_codegen.expression import Expr, Scalar
from kunport_codegen.graph import Body, Frame, Location, Node, Ref

from kunport.analysis.shapes import TensorType
from kunport.analysis.values import (
    Bound,
    Function,
    Instance,
    NativeClass,
    Partial,
    SourceClass,
    Tensor,
    Value,
    is_subclass,
)

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter
    from kunport.analysis.trace import Trace

_NUMBERED = re.compile(r"(?:.*\.)?\d+")
_NUMBERED_SIZE = re.compile(
    r"(data|turn)_(\d+)((?:_\d+)?)"
)  # how sizes that depend on data or on a loop's turn are named
_KINDS = 8  # kinds of layers that are remembered for one class
_MODULE = "torch.nn.Module"
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
            likeness = _Likeness(interpreter.trace)
            alike = _is_current(run) and likeness.same(run.inputs, inputs) and likeness.same(run.module, module)
            if alike and likeness.different.isdisjoint(run.read):
                return _Copy(interpreter.trace, run, module, likeness).write()
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


class _Likeness:
    """Compares values of an earlier run with those of now.

    Attributes:
        ids: node of then -> node that stands in its place now.
        different: attributes whose plain values differ, as (id of the object of then, name).
        expressions: of scalars that have the same value now and then, but come from another field now.
    """

    def __init__(self, trace: Trace) -> None:
        self.ids: dict[int, int] = {}
        self.different: set[tuple[int, str]] = set()
        self.expressions: dict[Expr, Expr] = {}
        self._trace = trace
        self._taken: dict[int, int] = {}
        self._met: dict[int, Instance] = {}

    def same(self, then: Value, now: Value) -> bool:
        if isinstance(then, Tensor) and isinstance(now, Tensor):
            return self._same_tensor(then, now)
        if then is now:
            return True
        if type(then) is not type(now):
            return False
        if isinstance(then, Instance):
            return self._same_instance(then, now)
        if isinstance(then, list | tuple):
            return len(then) == len(now) and all(map(self.same, then, now))
        if isinstance(then, dict):
            return list(then) == list(now) and all(self.same(then[key], now[key]) for key in then)
        if isinstance(then, Bound):
            return self.same(then.function, now.function) and self.same(then.receiver, now.receiver)
        if isinstance(then, Partial):
            return all(self.same(getattr(then, name), getattr(now, name)) for name in ("function", "args", "kwargs"))
        if isinstance(then, Function):  # made once for each layer, as lambdas are
            return then.node is now.node and self.same(then.scope.variables, now.scope.variables)
        if isinstance(then, Scalar) and then != now:
            alike = type(then.value) is type(now.value) and then.value == now.value
            return alike and self.expressions.setdefault(then.expr, now.expr) == now.expr
        return isinstance(then, Scalar | TensorType | bool | int | float | str) and bool(then == now)

    def _same_instance(self, then: Instance, now: Instance) -> bool:
        if id(then) in self._met:
            return self._met[id(then)] is now
        self._met[id(then)] = now
        if then.cls is not now.cls or then.partial or now.partial or list(then.attributes) != list(now.attributes):
            return False
        for name, value in then.attributes.items():
            if not self.same(value, now.attributes[name]):
                if not _is_harmless(then, value, now.attributes[name]):
                    return False
                self.different.add((id(then), name))
        return self.same(then.items, now.items)

    def _same_tensor(self, then: Tensor, now: Tensor) -> bool:
        if then is not now and (then.type != now.type or then.view is not None or now.view is not None):
            return False
        if (then.state is None) != (now.state is None):
            return False
        # A view that its base has left behind is cut again when it is next read.
        if now.view is not None and now.view.version != now.view.base.version:
            return False
        if self.ids.setdefault(then.id, now.id) != now.id or self._taken.setdefault(now.id, then.id) != then.id:
            return False
        constructed = self._trace.constructed
        return then.state is not None or then.id not in constructed or self._same_node(then.id, now.id)

    def _same_node(self, then: int, now: int) -> bool:
        """Whether two nodes of the constructor make the same constant."""
        if then == now:
            return True
        one, other = (self._trace.constructed.get(each) for each in (then, now))
        if one is None or other is None or one.op in ("parameter", "loop") or one.op != other.op:
            return False
        return self._same_operands(one.args, other.args) and self._same_operands(one.kwargs, other.kwargs)

    def _same_operands(self, then: Any, now: Any) -> bool:
        if isinstance(then, Ref) and isinstance(now, Ref):
            return self._same_node(then.id, now.id)
        if isinstance(then, list | tuple) and type(then) is type(now) and len(then) == len(now):
            return all(map(self._same_operands, then, now))
        if isinstance(then, dict) and isinstance(now, dict) and list(then) == list(now):
            return all(self._same_operands(then[key], now[key]) for key in then)
        return type(then) is type(now) and bool(then == now)


def _is_harmless(owner: Instance, then: Value, now: Value) -> bool:
    """Whether a difference matters only to source that reads it: natives look into configurations and leaves."""
    native = any(isinstance(cls, NativeClass) and "forward" in cls.members for cls in owner.cls.mro)
    plain = all(isinstance(each, Scalar | bool | int | float | str | None) for each in (then, now))
    return isinstance(owner.cls, SourceClass) and is_subclass(owner.cls, _MODULE) and plain and not native


class _Copy:
    """Writes a run down again, for another module."""

    def __init__(self, trace: Trace, run: Run, module: Instance, likeness: _Likeness) -> None:
        self._trace, self._run, self._ids, self._expressions = trace, run, likeness.ids, likeness.expressions
        self._path = module.path or ""
        self._renamings: dict[int, Expr] = {}
        self._shift = trace.ids - run.ids.start
        self._frame_shift = len(trace.frames) - run.first_frame

    def write(self) -> Value:
        trace, run = self._trace, self._run
        outer = trace.frame
        trace.frames.extend(self._frame(frame) for frame in run.frames)
        trace.frames[run.first_frame + self._frame_shift].parent = outer
        trace.frames[run.first_frame + self._frame_shift].where = trace.where
        trace.nodes.extend(map(self._node, run.nodes))
        trace.skip_ids(len(run.ids))
        where = trace.where
        for expr, outcome, trace.where in run.decisions if self._expressions else ():
            trace.decide(self._renamed(expr), outcome)
        trace.where = where
        return self._value(run.result)

    def _value(self, value: Value) -> Value:
        if isinstance(value, Tensor):
            kind = TensorType(self._operand(value.type.shape), value.type.dtype)
            return Tensor(self._id(value.id), kind, value.state, version=value.version)
        return tuple(map(self._value, value)) if isinstance(value, tuple) else value

    def _node(self, node: Node) -> Node:
        return Node(
            node.id + self._shift,
            node.op,
            self._operand(node.args),
            self._operand(node.kwargs),
            None if node.shape is None else self._operand(node.shape),
            node.dtype,
            node.frame + self._frame_shift,
            node.where,
            None if node.body is None else self._body(node.body),
            node.contiguous,
        )

    def _body(self, body: Body) -> Body:
        carried = [
            (self._id(inner), self._operand(before), self._operand(after)) for inner, before, after in body.carried
        ]
        nodes = list(map(self._node, body.nodes))
        return replace(
            body, variable=self._id(body.variable), nodes=nodes, carried=carried, skip=self._operand(body.skip)
        )

    def _frame(self, frame: Frame) -> Frame:
        parent, path, own = frame.parent, frame.path, self._run.module.path or ""
        if parent is not None and parent >= self._run.first_frame:
            parent += self._frame_shift
        if path == own or path.startswith(f"{own}."):
            path = self._path + path[len(own) :]
        inputs, output = self._operand(frame.inputs), self._operand(frame.output)
        return Frame(frame.id + self._frame_shift, parent, frame.kind, frame.name, path, frame.where, inputs, output)

    def _id(self, node: int) -> int:
        return node + self._shift if node >= self._run.ids.start else self._ids.get(node, node)

    def _operand(self, value: Any) -> Any:
        if isinstance(value, Ref):
            return Ref(self._id(value.id))
        if isinstance(value, Scalar):
            return self._scalar(value)
        if isinstance(value, list | tuple):
            return type(value)(map(self._operand, value))
        if isinstance(value, dict):
            return {key: self._operand(each) for key, each in value.items()}
        if isinstance(value, slice):
            return slice(*map(self._operand, (value.start, value.stop, value.step)))
        return value

    def _scalar(self, value: Scalar) -> Scalar:
        expr = self._renamed(value.expr)
        return value if expr is value.expr else Scalar(value.value, expr)

    def _renamed(self, value: Any) -> Any:
        """An expression whose fields and data-dependent sizes are those of this run; the same object where it is equal.

        Remembered by identity: most expressions stand in many places, and the run keeps them alive.
        """
        if not isinstance(value, Expr):
            return value
        known = self._renamings.get(id(value))
        if known is None:
            known = self._renamings[id(value)] = self._rename(value)
        return known

    def _rename(self, value: Expr) -> Expr:
        if self._expressions and value in self._expressions:
            return self._expressions[value]
        if value.op == "symbol":
            name = _NUMBERED_SIZE.fullmatch(value.args[0])
            return value if name is None else Expr("symbol", (f"{name[1]}_{self._id(int(name[2]))}{name[3]}",))
        args = tuple(map(self._renamed, value.args))
        return value if all(map(operator.is_, args, value.args)) else Expr(value.op, args)
