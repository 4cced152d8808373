"""The abstract interpreter: it runs model source on abstract values and records what tensors would be computed."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kunport_codegen.expression import Expr, Scalar, origins_of, unwrap
from kunport_codegen.graph import DType, Node

from kunport.analysis.interpreter import (
    attributes,
    calls,
    classes,
    containers,
    expressions,
    limits,
    operations,
    statements,
    tensors,
)
from kunport.analysis.interpreter.loops import Turn
from kunport.analysis.interpreter.replay import Replay
from kunport.analysis.interpreter.scope import Scope
from kunport.analysis.interpreter.signals import NotUnderstoodError, RaisedError, Signal
from kunport.analysis.intrinsics import external
from kunport.analysis.names import Names, Namespace
from kunport.analysis.positions import line_of
from kunport.analysis.shapes import TensorType
from kunport.analysis.source import Root
from kunport.analysis.trace import Trace
from kunport.analysis.values import Instance, NativeClass, Opaque, SourceClass, State, Tensor, Unknown, Value


class Interpreter:
    """Runs source without importing it.

    Args:
        roots: where the source to read is looked for.
        contain: whether a failure inside a call becomes an unknown value; otherwise it is raised.

    Attributes:
        trace: the record of what ran.
        names: the modules that were looked into.
        default_dtype: of tensors made without a dtype: the model's while it is constructed, float32 when it runs.
        depth: calls inside calls that run now.
        fresh: attributes of objects that were set since the model runs.
        running: modules whose forward runs now, innermost last.
        spent: work done so far, in units of `limits`.
        states: parameters and saved buffers with their nodes, in the order of their making.
        turns: data-dependent loops that run now, innermost last.
        replay: runs of layers that can be repeated for others.
        debug: let errors of the analysis itself escape instead of containing them.
    """

    def __init__(self, roots: list[Root], *, contain: bool = True) -> None:
        self.trace = Trace()
        self.names = Names(self, roots)
        self.default_dtype = DType("model")
        self.depth = 0
        self.fresh: set[tuple[Instance, str]] = set()
        self.running: list[Instance] = []
        self.spent = 0
        self.turns: list[Turn] = []
        self.replay = Replay()
        self.states: list[tuple[Tensor, Node]] = []
        self.debug = False
        self._contain = contain
        self._handlers = 0

    # Entry points

    def load(self, dotted: str) -> Namespace:
        """The module of a dotted name.

        Raises:
            NotUnderstoodError: no source root has it.
        """
        namespace = self.names.namespace(dotted)
        if namespace is None:
            raise NotUnderstoodError(f"there is no module {dotted}")
        return namespace

    @property
    def constructing(self) -> bool:
        """Whether the model is still being made: what is set then, a checkpoint and ``eval`` set again."""
        return self.default_dtype.name == "model"

    def call(self, value: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return calls.call(self, value, args, kwargs)

    def instantiate(self, cls: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return classes.instantiate(self, cls, args, kwargs)

    # Names and definitions

    def lookup(self, name: str, scope: Scope) -> Value:
        """The value that a name stands for in a scope."""
        inner: Scope | None = scope
        while inner is not None:
            if name in inner.variables:
                return inner.variables[name]
            if name in inner.outer:
                return self.lookup(name, inner.outer[name])
            if inner.cls is not None and name in inner.cls.members:
                return self.own_member(inner.cls, name)
            inner = inner.parent
        try:
            return scope.namespace.get(name)
        except KeyError:
            value = external(f"builtins.{name}")
            if isinstance(value, Opaque):
                if hasattr(builtins, name):
                    raise NotUnderstoodError(f"Python's {name} is not known to the analysis") from None
                raise RaisedError("NameError", f"the name {name} is not defined") from None
            return value

    def bind(self, name: str, value: Value, scope: Scope) -> None:
        scope = scope.outer.get(name, scope)
        if scope.top:
            scope.namespace.set(name, value)
        else:
            scope.variables[name] = value

    def make_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: Scope) -> Value:
        return calls.make_function(self, node, scope, scope.cls)

    def define_class(self, node: ast.ClassDef, scope: Scope) -> Value:
        return classes.define_class(self, node, scope)

    def own_member(self, cls: SourceClass, name: str) -> Value:
        return classes.own_member(self, cls, name)

    def run(self, statement: ast.stmt, scope: Scope) -> None:
        """Runs a module's own statement; the place in the source that asked for it is kept."""
        where = self.trace.where
        statements.execute(self, statement, scope)
        self.trace.where = where

    def decide(self, test: ast.expr, scope: Scope) -> bool | None:
        """What a module's top-level ``if`` decides, None where that is not known."""
        where = self.trace.where
        try:
            return self.truth(self.evaluate(test, scope))
        except (NotUnderstoodError, RaisedError):
            return None
        finally:
            self.trace.where = where

    # Statements, expressions and where they stand

    def execute(self, node: ast.stmt, scope: Scope) -> Signal | None:
        return statements.execute(self, node, scope)

    def evaluate(self, node: ast.expr, scope: Scope) -> Value:
        return expressions.evaluate(self, node, scope)

    def begin(self, node: ast.stmt, scope: Scope) -> None:
        """A statement begins: what it makes is made on its line."""
        self.spend(limits.STATEMENT)
        self.trace.where = scope.namespace.file.location(node.lineno)

    def spend(self, work: int) -> None:
        """Account for statements, items and operators.

        Raises:
            NotUnderstoodError: the analysis has done more than any model needs.
        """
        self.spent += work
        if self.spent > limits.WORK:
            raise NotUnderstoodError("it runs for longer than any model does")

    def at(self, node: ast.expr, scope: Scope) -> None:
        """An expression is about to make something: on its line, which a statement may have several of."""
        self.trace.where = scope.namespace.file.location(line_of(node))

    def message(self, node: ast.expr, scope: Scope) -> str:
        """The text of an exception that the source raises; none here, where formatting would pin what it names."""
        return ""

    def assign(self, target: ast.expr, value: Value, scope: Scope) -> None:
        """Binds a target: a name, an attribute, an item, or several of them."""
        if isinstance(target, ast.Name):
            self.bind(target.id, value, scope)
        elif isinstance(target, ast.Attribute):
            attributes.put(self, self.evaluate(target.value, scope), target.attr, value)
        elif isinstance(target, ast.Subscript):
            holder = self.evaluate(target.value, scope)
            containers.set_item(self, holder, self.evaluate(target.slice, scope), value)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target.elts, value, scope)
        else:
            raise NotUnderstoodError(f"an assignment to {type(target).__name__}")

    def _unpack(self, targets: list[ast.expr], value: Value, scope: Scope) -> None:
        values = tensors.unpacked(self, value, len(targets)) if isinstance(value, Unknown) else self.iterate(value)
        star = next((at for at, each in enumerate(targets) if isinstance(each, ast.Starred)), None)
        if star is not None:
            stop = len(values) - (len(targets) - star - 1)
            values = [*values[:star], values[star:stop], *values[stop:]]
        if len(values) != len(targets):
            raise RaisedError("ValueError", f"{len(values)} values to unpack into {len(targets)} names")
        for target, each in zip(targets, values, strict=True):
            self.assign(target.value if isinstance(target, ast.Starred) else target, each, scope)

    # Attributes and items

    def attribute(self, value: Value, name: str) -> Value:
        return attributes.get(self, value, name)

    def set_attribute(self, value: Value, name: str, new: Value) -> None:
        attributes.put(self, value, name, new)

    def delete_attribute(self, value: Value, name: str) -> None:
        attributes.delete(self, value, name)

    def find(self, value: Instance, name: str) -> Value | None:
        """A method of an object by its class, bound to it; None without one."""
        found = attributes.class_member(self, value.cls.mro, name)
        return None if found is attributes.MISSING else attributes.bind(self, found, value)

    def item(self, value: Value, key: Value) -> Value:
        return containers.item(self, value, key)

    def set_item(self, value: Value, key: Value, new: Value) -> None:
        containers.set_item(self, value, key, new)

    def delete_item(self, value: Value, key: Value) -> None:
        containers.delete_item(self, value, key)

    def iterate(self, value: Value) -> list[Value]:
        return containers.iterate(self, value)

    def mapping(self, value: Value) -> dict[Value, Value]:
        return containers.mapping(self, value)

    # Decisions

    def truth(self, value: Value) -> bool:
        return operations.truth(self, value)

    def pin(self, value: Value) -> Value:
        """The plain value of a scalar, which the graph is from now on specialised on."""
        if isinstance(value, Scalar):
            operations.refuse_turns(value)
            if origins_of(value.expr):
                plain = isinstance(value.value, bool)
                expr = value.expr if plain else Expr("eq", (value.expr, Expr("const", (value.value,))))
                self.trace.decide(expr, value.value if plain else True)
            return value.value
        if isinstance(value, Tensor | Unknown):
            raise NotUnderstoodError("a plain value is needed where a tensor stands")
        return value

    def is_type(self, value: Value) -> bool:
        return isinstance(value, SourceClass | NativeClass | Opaque)

    @property
    def catches(self) -> bool:
        """Whether the source that runs now stands in a ``try``."""
        return self._handlers > 0

    def contains(self, problem: Exception) -> bool:
        """Whether a problem stops at the call that runs now."""
        if isinstance(problem, RaisedError):
            return self._contain and not self._handlers
        return self._contain and (isinstance(problem, NotUnderstoodError) or not self.debug)

    @contextmanager
    def handling(self) -> Iterator[None]:
        """What the source raises inside is caught by the source around it."""
        self._handlers += 1
        try:
            yield
        finally:
            self._handlers -= 1

    # Tensors

    def operator(self, name: str, args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
        return tensors.operator(self, name, args, kwargs)

    def state(self, kind: TensorType, *, buffer: bool = False) -> Tensor:
        """A new parameter or saved buffer; its path is filled in once the module tree is named.

        A parameter without elements is no model's: what follows would divide by its size.
        """
        if not buffer and any(unwrap(size) <= 0 for size in kind.shape):
            sizes = ", ".join(str(unwrap(size)) for size in kind.shape)
            raise NotUnderstoodError(f"a parameter of the shape ({sizes})")
        node = self.trace.emit("parameter", ("",), kind=kind)
        tensor = Tensor(node.id, kind, State(buffer))
        self.states.append((tensor, node))
        return tensor

    def unknown(self, reason: str, *operands: Value) -> Unknown:
        return tensors.unknown(self, reason, *operands)

    def write(self, cell: Tensor, new: Value) -> Value:
        return tensors.write(self, cell, new)

    def write_item(self, cell: Value, key: Value, new: Value) -> None:
        tensors.write_item(self, cell, key, new)

    def rows(self, value: Value) -> list[Value]:
        return tensors.rows(self, value)

    def depends_on_data(self, value: Tensor) -> bool:
        return tensors.depends_on_data(value)

    def tensor_attribute(self, value: Value, name: str) -> Value:
        return tensors.attribute(self, value, name)

    def set_tensor_attribute(self, value: Value, name: str, new: Value) -> None:
        tensors.set_attribute(self, value, name, new)

    def dtype_attribute(self, value: DType, name: str) -> Value:
        return tensors.dtype_attribute(value, name)

    def arguments(self, values: dict[str, Value]) -> dict[str, Any]:
        """Named values as a frame records them; those that no node could take are left out."""
        return tensors.arguments(self, values)

    def argument_or_none(self, value: Value) -> Any:
        return tensors.argument_or_none(self, value)

    def sorted(self, values: Value, key: Value = None, reverse: Value = False) -> list[Value]:
        """What ``sorted`` gives; sorting by a scalar's value is no decision worth a guard."""
        keys = [operations.plain(each if key is None else self.call(key, [each], {})) for each in values]
        order = sorted(range(len(keys)), key=keys.__getitem__, reverse=bool(operations.plain(reverse)))
        return [values[position] for position in order]


__all__ = ["Interpreter", "NotUnderstoodError", "RaisedError"]
