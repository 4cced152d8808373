"""Writes an earlier run down again, for another module."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kunport_codegen.expression import Expr, Scalar, walk
from kunport_codegen.graph import Body, DType, Frame, Node, Ref

from kunport.analysis.interpreter.likeness import Likeness
from kunport.analysis.shapes import TensorType
from kunport.analysis.values import Instance, Tensor, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter.replay import Run
    from kunport.analysis.trace import Trace

# How sizes that depend on data or on a loop's turn are named.
_NUMBERED_SIZE = re.compile(r"(data|turn)_(\d+)((?:_\d+)?)")
_LEAVES = frozenset((int, str, float, bool, type(None), DType))


class Copy:
    """Writes a run down again, for another module."""

    def __init__(self, trace: Trace, run: Run, module: Instance, likeness: Likeness) -> None:
        self._trace, self._run, self._ids, self._expressions = trace, run, likeness.ids, likeness.expressions
        self._path = module.path or ""
        self._renamings: dict[int, Expr] = {}
        self._keeps_sizes = _keeps_sizes(run, likeness.expressions)
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
            node.shape if self._keeps_sizes or node.shape is None else self._operand(node.shape),
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
        kind = type(value)
        if kind is Ref:
            return Ref(self._id(value.id))
        if kind in _LEAVES:
            return value
        if kind is Scalar:
            return self._scalar(value)
        if kind is tuple:
            return tuple(map(self._operand, value))
        if isinstance(value, (list, tuple)):
            return kind(map(self._operand, value))
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
        return value if all(map(operator.is_, args, value.args)) else Expr(value.op, args, value.chosen)


def _keeps_sizes(run: Run, expressions: dict[Expr, Expr]) -> bool:
    """Whether all shapes of a run are the same in another one, where some expressions have become others."""
    if run.sizes is None:
        distinct = {id(size.expr): size.expr for size in _sizes(run.nodes)}
        run.sizes = frozenset(part for each in distinct.values() for part in walk(each))
    return run.sizes.isdisjoint(expressions) and not any(map(_is_numbered, run.sizes))


def _sizes(nodes: list[Node]) -> Iterator[Scalar]:
    for node in nodes:
        yield from (size for size in node.shape or () if isinstance(size, Scalar))
        if node.body is not None:
            yield from _sizes(node.body.nodes)


def _is_numbered(expr: Expr) -> bool:
    return expr.op == "symbol" and _NUMBERED_SIZE.fullmatch(expr.args[0]) is not None
