"""Whether a module and what it is called with are like those of an earlier run, and in what they differ."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kunport_codegen.expression import Expr, Scalar, fields_of
from kunport_codegen.graph import DType, Ref

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
    from kunport.analysis.trace import Trace

_MODULE = "torch.nn.Module"
_NAME = re.compile(r"[A-Za-z_]\w*")


class Likeness:
    """Compares values of an earlier run with those of now.

    Args:
        trace: what was made.
        begin: the first id that the earlier run made.

    Attributes:
        ids: node of then -> node that stands in its place now.
        different: attributes whose plain values differ, as (id of the object of then, name).
        expressions: of scalars that have the same value now and then, but come from another field now.
    """

    def __init__(self, trace: Trace, begin: int) -> None:
        self.ids: dict[int, int] = {}
        self.different: set[tuple[int, str]] = set()
        self.expressions: dict[Expr, Expr] = {}
        self._trace, self._begin = trace, begin
        self._kept: list[Expr] = []
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
        if isinstance(then, Scalar):
            return self._same_scalar(then, now)
        return isinstance(then, TensorType | DType | bool | int | float | str) and bool(then == now)

    def _same_scalar(self, then: Scalar, now: Scalar) -> bool:
        if type(then.value) is not type(now.value) or then.value != now.value:
            return False
        if then.expr == now.expr:
            self._kept.append(then.expr)
        elif self.expressions.setdefault(then.expr, now.expr) != now.expr:
            return False
        return True

    def ambiguous(self, read: set[str]) -> bool:
        """Whether an expression becomes another one here and may stay elsewhere, as where one of the fields is read."""
        if not self.expressions:
            return False
        paths = {path for expr in self.expressions for path in fields_of(expr)}
        return any(expr in self.expressions for expr in self._kept) or any(
            not read.isdisjoint(_NAME.findall(path)) for path in paths
        )

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
        if then is not now and (then.type.dtype != now.type.dtype or not self.same(then.type.shape, now.type.shape)):
            return False
        if (then.state is None) != (now.state is None) or (then.view is None) != (now.view is None):
            return False
        if then.view is not None and then.id >= self._begin:  # it was cut again in the run
            return False
        # A view that its base has left behind is cut again when it is next read.
        if now.view is not None and now.view.version != now.view.base.version:
            return False
        if self.ids.setdefault(then.id, now.id) != now.id or self._taken.setdefault(now.id, then.id) != then.id:
            return False
        constructed = self._trace.constructed
        stored = then.state is not None and then.state.initial is None
        return stored or then.id not in constructed or self._same_node(then.id, now.id)

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
