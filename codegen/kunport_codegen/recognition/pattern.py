"""Patterns of dataflow that read like the formula they match.

``Op("mul", Parameter("weight"), Any("x"))`` matches a multiplication of a parameter with anything, in either order,
and binds both. A name that occurs twice must match the same thing twice.
"""

from __future__ import annotations

from typing import Any as Anything

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import Node, Ref

from .index import Index, is_cast

_COMMUTATIVE = frozenset(("add", "mul"))


class Any:
    """Whatever stands there: a tensor, a number, nothing. Without a name it is not bound."""

    def __init__(self, name: str = "") -> None:
        self.name = name


class Parameter(Any):
    """A parameter of the module tree; its path is bound."""


class OneOf:
    """One of several plain values."""

    def __init__(self, *values: Anything) -> None:
        self.values = values


class Op:
    """An operator with patterns for its arguments; one by name that the pattern leaves out must not be there."""

    def __init__(self, op: str, *args: Anything, **named: Anything) -> None:
        self.op, self.args, self.named = op, args, named


class Cast:
    """A pattern, behind a cast or not."""

    def __init__(self, inner: Op | Any | Cast) -> None:
        self.inner = inner


class Match:
    """What a pattern bound, by name, and the nodes that its operators are."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.bound: dict[str, Anything] = {}
        self.nodes: dict[int, Node] = {}

    def node(self, name: str) -> Node | None:
        return self.index.producer(self.bound[name])

    def matches(self, pattern: Anything, arg: Anything) -> bool:
        """Whether an argument is what the pattern says. A failed match leaves the match unchanged."""
        bound, nodes = dict(self.bound), dict(self.nodes)
        if self._matches(pattern, arg):
            return True
        self.bound, self.nodes = bound, nodes
        return False

    def _matches(self, pattern: Anything, arg: Anything) -> bool:
        if isinstance(pattern, Cast):
            return self._cast(pattern, arg)
        if isinstance(pattern, Parameter):
            node = self.index.producer(arg)
            return node is not None and node.op == "parameter" and self._bind(pattern.name, node.args[0])
        if isinstance(pattern, Any):
            return self._bind(pattern.name, arg)
        if isinstance(pattern, Op):
            return self._operator(pattern, arg)
        if isinstance(pattern, Ref):
            return bool(arg == pattern)
        if isinstance(pattern, OneOf):
            return unwrap(arg) in pattern.values
        if isinstance(pattern, tuple):
            same = isinstance(arg, list | tuple) and len(arg) == len(pattern)
            return same and all(self._matches(each, other) for each, other in zip(pattern, arg, strict=True))
        return bool(unwrap(arg) == pattern)

    def _bind(self, name: str, value: Anything) -> bool:
        return not name or bool(self.bound.setdefault(name, value) == value)

    def _cast(self, pattern: Cast, arg: Anything) -> bool:
        if self.matches(pattern.inner, arg):
            return True
        node = self.index.producer(arg)
        if node is None or not is_cast(node):
            return False
        self.nodes[node.id] = node
        return self._cast(pattern, node.args[0])

    def _operator(self, pattern: Op, arg: Anything) -> bool:
        node = self.index.producer(arg) if isinstance(arg, Ref) else None
        if node is None or node.op != pattern.op or not self._named(pattern, node):
            return False
        args = list(node.args)
        while len(args) > len(pattern.args) and args[-1] is None:
            args.pop()
        if len(args) != len(pattern.args):
            return False
        orders = [args, args[::-1]] if node.op in _COMMUTATIVE and len(args) == 2 else [args]
        if not any(self.matches(pattern.args, tuple(order)) for order in orders):
            return False
        self.nodes[node.id] = node
        return True

    def _named(self, pattern: Op, node: Node) -> bool:
        if not set(node.kwargs) <= set(pattern.named):
            return False
        return all(self._matches(each, node.kwargs.get(name)) for name, each in pattern.named.items())
