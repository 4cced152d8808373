"""A model graph with its facts, and the questions that every part of a description asks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property

from kunport_codegen.expression import Scalar, fields_of, unwrap
from kunport_codegen.facts import Facts, Number
from kunport_codegen.graph import Graph, Module, Node, refs
from kunport_codegen.recognition.index import Index, number

_LAYER = re.compile(r"(?:^|\.)(\d+)(?:\.|$)")
_LONGEST = 60  # characters of an expression that is shown as it is


class View:
    """The graph, its facts, and where in the tree of modules a node belongs."""

    def __init__(self, graph: Graph, facts: Facts) -> None:
        self.graph, self.facts, self.index = graph, facts, Index(graph)
        self.norm_of_output = {norm.output: norm for norm in facts.norms}
        layers = (layer_of(frame.path) for frame in graph.frames)
        self.depth = max((layer for layer in layers if layer is not None), default=-1) + 1

    @cached_property
    def additions(self) -> dict[str, list[Node]]:
        """Module path -> the additions of its own forward, in order."""
        found: dict[str, list[Node]] = {}
        for node in self.index.in_order("add"):
            found.setdefault(self.path(node.frame), []).append(node)
        return found

    @cached_property
    def projections(self) -> dict[str, list[Module]]:
        """Module path -> the linear layers right below it that are used, in order."""
        found: dict[str, list[Module]] = {}
        for node in self.index.in_order("linear"):
            owner = (self.parameter(node.args[1]) or "").rpartition(".")[0]
            if owner in self.graph.modules:
                found.setdefault(owner.rpartition(".")[0], []).append(self.graph.modules[owner])
        return found

    def path(self, frame: int) -> str:
        """Path of the module whose forward the frame is or was called from."""
        current: int | None = frame
        while current is not None:
            if self.graph.frames[current].kind == "module":
                return self.graph.frames[current].path
            current = self.graph.frames[current].parent
        return ""

    def is_layer(self, path: str) -> bool:
        """Whether a module path is a layer's own, not that of something numbered inside a layer."""
        found = _LAYER.search(path)
        return found is not None and found.end() == len(path)

    def layer(self, frame: int) -> int | None:
        return layer_of(self.path(frame))

    def place(self, frame: int) -> str:
        """Path inside the layer, or the whole path outside of layers."""
        return inside_layer(self.path(frame))

    def parameter(self, ref: object) -> str | None:
        """Path of the parameter that an operand is, a transposed one included."""
        node = self.index.strip(self.index.producer(ref), "transpose", "t", "to")
        return str(node.args[0]) if node is not None and node.op == "parameter" else None

    def back(self, start: int, stop: Callable[[Node], bool]) -> Iterator[Node]:
        """Nodes that ``start`` depends on, itself first; those that ``stop`` accepts are given and not gone beyond."""
        seen, pending = set[int](), [start]
        while pending:
            node = self.index.nodes.get(pending.pop())
            if node is None or node.id in seen:
                continue
            seen.add(node.id)
            yield node
            if not stop(node):
                pending.extend(refs(node.args))
                pending.extend(refs(node.kwargs))

    def weights(self, start: int, stop: Callable[[Node], bool]) -> list[str]:
        """Paths of the weights of the linear layers nearest to ``start``, in order of their names."""
        linears = self.back(start, lambda node: stop(node) or node.op == "linear")
        paths = {self.parameter(node.args[1]) for node in linears if node.op == "linear"}
        return sorted(path for path in paths if path is not None)


def layer_of(path: str) -> int | None:
    """Index of the layer that a module path lies in: its first number."""
    found = _LAYER.search(path)
    return int(found[1]) if found else None


def inside_layer(path: str) -> str:
    """A module path without the part that names the layer."""
    found = _LAYER.search(path)
    return path[found.end() :] or path if found else path


def show(value: Number | bool | str | None) -> str:
    """A value and the configuration field or expression that it comes from."""
    if not isinstance(value, Scalar) or value.expr.op == "const":
        return _plain(unwrap(value))
    expression = str(value.expr)
    if len(expression) > _LONGEST:
        expression = "from " + ", ".join(f"config.{path}" for path in sorted(fields_of(value.expr)))
    return f"{_plain(value.value)} ({expression})"


def _plain(value: object) -> str:
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.6g}"
    return f"{value:.0f}" if isinstance(value, float) else str(value)


def tensor_and_number(view: View, node: Node) -> tuple[Node, Number] | None:
    """The tensor and the number of a multiplication or division of one by the other, also where a tensor holds it."""
    if node.op not in ("mul", "div") or len(node.args) != 2:
        return None
    for one, other in (node.args, node.args[::-1]):
        tensor, holder = view.index.producer(one), view.index.strip(view.index.producer(other), "to")
        value = number(holder.args[0] if holder is not None and holder.op == "tensor" else other)
        if tensor is not None and tensor.op != "tensor" and value is not None:
            return tensor, value
    return None
