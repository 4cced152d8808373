"""Token mixers that are no softmax attention: state-space scans, delta rules, linear recurrences, convolutions.

Their source is a reference implementation of many steps (chunks, padding, loops over positions), so a mixer is known by
the module call that holds it and by operators that no other family has together. That tells the family; its
numbers are not compared with a formula.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kunport_codegen.expression import Scalar, symbols_of
from kunport_codegen.facts import Mixer
from kunport_codegen.graph import Frame, Node, refs

from .index import Index, sizes

# Operators that mixers have and feed-forward networks have not.
_ANCHORS = ("conv1d", "solve_triangular", "logsigmoid", "maximum", "softplus", "cumsum", "matmul")


def find_mixers(index: Index) -> list[Mixer]:
    """The mixers of a graph, in order."""
    anchors = [node for node in index.in_order(*_ANCHORS) if node.op != "matmul" or _scaled_product(index, node)]
    if not anchors:
        return []
    calls = _Calls(index)
    fixed = _fixed(index) if any(node.op == "matmul" for node in anchors) else set[int]()
    found: dict[int, Mixer] = {}
    for anchor in anchors:
        decayed = any(factor.id in fixed for factor in _scaled_product(index, anchor))
        frame = calls.holder(anchor) if decayed or anchor.op != "matmul" else None
        if frame is None or frame.id in found:
            continue
        nodes = calls.nodes(frame)
        kind = "linear" if decayed else _kind(index, nodes, calls.counts[frame.id])
        if kind == "short_convolution" and calls.attends(calls.caller(frame)):
            continue  # it prepares the tensors of an attention
        mixer = None if kind is None else _fact(index, kind, frame, nodes)
        if mixer is not None:
            found[frame.id] = mixer
    return list(found.values())


class _Calls:
    """What each module call computes, those that it makes included."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.frames = {frame.id: frame for frame in index.graph.frames}
        self.counts: dict[int, Counter[str]] = {frame: Counter() for frame in self.frames}
        for node in index.nodes.values():
            if node.id in index.live and not _chooses_features(index, node):
                self.counts[node.frame][node.op] += 1
        for frame in reversed(index.graph.frames):  # a call comes after the one that makes it
            if frame.parent is not None:
                self.counts[frame.parent].update(self.counts[frame.id])

    def nodes(self, frame: Frame) -> list[Node]:
        inside = {frame.id}
        for each in self.index.graph.frames:
            if each.parent in inside:
                inside.add(each.id)
        return [node for node in self.index.nodes.values() if node.frame in inside and node.id in self.index.live]

    def holder(self, node: Node) -> Frame | None:
        """The innermost module call that projects its input and its output around a node; None inside attention."""
        for frame in self._around(node.frame):
            counts = self.counts[frame.id]
            if self.attends(frame):
                return None
            if frame.kind == "module" and counts["linear"] + counts["addmm"] >= 2:
                return frame
        return None

    def attends(self, frame: Frame | None) -> bool:
        counts = Counter[str]() if frame is None else self.counts[frame.id]
        return bool(counts["softmax"] or counts["topk"] or counts["scaled_dot_product_attention"])

    def caller(self, frame: Frame) -> Frame | None:
        return None if frame.parent is None else self.frames.get(frame.parent)

    def _around(self, identifier: int) -> Iterator[Frame]:
        current: int | None = identifier
        while current is not None and current in self.frames:
            yield self.frames[current]
            current = self.frames[current].parent


def _chooses_features(index: Index, node: Node) -> bool:
    """Whether a softmax or a choice runs over features, as a router's over experts, and not over tokens."""
    operand = index.producer(node.args[0]) if node.op in ("softmax", "topk") else None
    size = operand.shape[-1] if operand is not None and operand.shape else None
    return size is not None and not (isinstance(size, Scalar) and symbols_of(size.expr))


def _kind(index: Index, nodes: list[Node], counts: Counter[str]) -> str | None:
    """The family, by operators that no other one has together."""
    has = {op for op, count in counts.items() if count}
    if {"conv1d", "cumsum", "exp"} <= has and ("solve_triangular" in has or {"triu", "setitem"} <= has):
        return "gated_delta"
    if {"conv1d", "softplus", "exp", "cumsum"} <= has:
        return "mamba2"
    if {"conv1d", "softplus", "exp", "sqrt", "sigmoid"} <= has and "matmul" not in has:
        return "rg_lru"
    if {"conv1d", "softplus", "exp", "matmul"} <= has and any(_is_state_matrix(index, node) for node in nodes):
        return "mamba"
    if {"logsigmoid", "maximum", "exp", "matmul"} <= has:
        return "mlstm"
    if {"maximum", "exp", "sigmoid", "div"} <= has and not has & {"matmul", "conv1d"}:
        return "rwkv"
    if "conv1d" in has and not has & {"exp", "softplus", "matmul", "cumsum", "rsqrt"}:
        return "short_convolution"
    return None


def _is_state_matrix(index: Index, node: Node) -> bool:
    """Whether a node is ``exp(A_log)`` with a number for each channel and each of its states."""
    source = index.strip(index.producer(node.args[0]), "to", "getitem") if node.op == "exp" else None
    shape = sizes(source)
    return source is not None and source.op == "parameter" and shape is not None and len(shape) >= 2


def _scaled_product(index: Index, node: Node) -> list[Node]:
    """The factors beside the product in ``(query @ key.T * factor) @ value``: with a fixed decay it is attention."""
    scores = index.producer(node.args[0]) if node.op == "matmul" else None
    if scores is None or scores.op != "mul":
        return []
    factors = [each for each in map(index.producer, scores.args) if each is not None]
    others = [each for each in factors if each.op != "matmul"]
    return others if len(factors) == 2 and len(others) == 1 else []


def _fixed(index: Index) -> set[int]:
    """The tensors that depend on sizes, the configuration and saved buffers alone."""
    found: set[int] = set()
    buffers = {path for path, parameter in index.graph.parameters.items() if parameter.buffer}
    for node in index.nodes.values():
        if node.op == "parameter":
            if node.args[0] in buffers:
                found.add(node.id)
        elif node.op not in ("input", "mask", "loop", "unknown") and found.issuperset(index.reads(node)):
            found.add(node.id)
    return found


def _fact(index: Index, kind: str, frame: Frame, nodes: list[Node]) -> Mixer | None:
    inputs = [each for value in frame.inputs.values() for each in refs(value) if each in index.nodes]
    outputs = [each for each in refs(frame.output) if each in index.live]
    if not inputs or not outputs:
        return None
    shaping = ("getitem", "unsqueeze", "squeeze", "reshape", "transpose", "to")
    kernels = [index.strip(index.producer(node.args[1]), *shaping) for node in nodes if node.op == "conv1d"]
    kernel = next((each for each in kernels if each is not None and each.op == "parameter"), None)
    return Mixer(
        kind=kind,
        input=inputs[0],
        output=outputs[0],
        nodes=frozenset(node.id for node in nodes if node.op not in ("parameter", "input", "mask")),
        convolution=None if kernel is None else str(kernel.args[0]),
        kernel=None if kernel is None or kernel.shape is None else kernel.shape[-1],
        frame=frame.id,
        where=frame.where,
    )
