"""The residual stream: what each layer adds to it, and how a branch is normalised and scaled."""

from __future__ import annotations

from collections.abc import Iterator

from kunport_codegen.facts import Norm
from kunport_codegen.graph import Frame, Location, Node, refs

from kunport.description.findings import Finding
from kunport.description.view import View, layer_of, show, tensor_and_number

_UNCHANGED = ("to", "dropout")


def describe(view: View) -> Iterator[Finding]:
    """The branches of each layer, in order."""
    for frame in view.graph.frames:
        if frame.kind == "module" and view.is_layer(frame.path):
            yield from _Stream(view, frame).findings()


class _Stream:
    """The values that the residual stream of one layer takes, from the layer's input on."""

    def __init__(self, view: View, frame: Frame) -> None:
        self.view, self.frame = view, frame
        self.values = list(refs(frame.inputs))[:1]
        self.norm_of_output = view.norm_of_output

    def findings(self) -> Iterator[Finding]:
        layer = layer_of(self.frame.path)
        for node in self.view.additions.get(self.frame.path, ()) if self.values else ():
            branches, text = self._branches(node), "the stream itself is normalised before the addition"
            if branches is None:
                continue
            kept, added = branches
            if kept.id not in self.values:
                yield Finding(text, node.where, layer, usual=False)
                self.values.append(kept.id)
            parallel = len(added) > 1
            for branch in added:
                finding, reads_latest = self._branch(branch, node.where)
                parallel = parallel or not reads_latest
                yield finding
            if parallel:
                yield Finding("attention and MLP read the same input, in parallel", node.where, layer, usual=False)
            self.values.append(node.id)
        yield from self._end(layer)

    def _branches(self, add: Node) -> tuple[Node, list[Node]] | None:
        """The stream value that an addition goes on from and what it adds; None for an addition within a branch."""
        operands = [self._strip(self.view.index.producer(operand)) for operand in add.args[:2]]
        for kept, other in (operands, operands[::-1]):
            if kept is None or other is None:
                continue
            norm = self.norm_of_output.get(kept.id)
            if kept.id in self.values or (norm is not None and norm.input in self.values):
                return kept, self._summands(other)
        return None

    def _summands(self, node: Node) -> list[Node]:
        if node.op == "add" and self.view.path(node.frame) == self.frame.path:
            parts = [self._strip(self.view.index.producer(operand)) for operand in node.args[:2]]
            return [summand for part in parts if part is not None for summand in self._summands(part)]
        return [node]

    def _branch(self, root: Node, where: Location) -> tuple[Finding, bool]:
        """What is said about a branch, and whether it reads the latest value of the stream."""
        node, scale, after = root, "", None
        while True:
            if (norm := self.norm_of_output.get(node.id)) is not None and after is None:
                after, inner = norm, self._strip(self.view.index.nodes.get(norm.input))
            elif (scaled := tensor_and_number(self.view, node)) is not None:
                inner, scale = self._strip(scaled[0]), f", multiplied by {show(scaled[1])}"
            else:
                break
            if inner is None:
                break
            node = inner
        inside = {each.id for each in self.view.back(node.id, lambda each: each.id in self.values)}
        norms = (self.norm_of_output.get(each) for each in sorted(inside))
        before = [norm for norm in norms if norm is not None and norm.input in self.values]
        name = self.view.place(node.frame).partition(".")[0] or "branch"
        finding = Finding(
            f"{name}: {_normalised(before, after)}{scale}",
            where,
            layer_of(self.frame.path),
            usual=bool(before) and after is None and not scale,
        )
        return finding, self.values[-1] in inside

    def _end(self, layer: int | None) -> Iterator[Finding]:
        norm = self.norm_of_output.get(next(refs(self.frame.output), -1))
        if norm is not None and norm.input in self.values:
            yield Finding("the stream itself is normalised at the end of the layer", norm.where, layer, usual=False)
        if len(self.values) < 2:
            yield Finding("no addition to the layer's input was recognised", self.frame.where, layer, usual=False)

    def _strip(self, node: Node | None) -> Node | None:
        """The tensor behind operators that only change its type, up to a norm's result or a value of the stream."""
        while node is not None and node.id not in self.norm_of_output and node.id not in self.values:
            behind = (
                self.view.index.strip(node) if node.op not in _UNCHANGED else self.view.index.producer(node.args[0])
            )
            if behind is node:
                break
            node = behind
        return node


def _normalised(before: list[Norm], after: Norm | None) -> str:
    if before:
        return "normalised before and after" if after else "normalised before"
    return "normalised after" if after else "not normalised"
