"""Operators that belong to nothing with a name: what is computed as written, and where a kernel could help."""

from __future__ import annotations

from collections.abc import Iterator

from kunport_codegen.graph import Node

from kunport.description.findings import Finding
from kunport.description.view import View

# Operators that every model has between the named ones.
_STRUCTURE = frozenset(("input", "parameter", "mask", "item", "loop", "unknown"))
_ARITHMETIC = frozenset(("add", "sub", "mul", "div", "neg", "to", "type_as", "linear", "matmul", "embedding", "tanh"))
_VIEWS = frozenset(
    ("reshape", "view", "transpose", "permute", "expand", "unsqueeze", "squeeze", "flatten", "unflatten")
)
_PIECES = frozenset(("getitem", "split", "chunk", "unbind", "cat", "stack", "repeat_interleave"))
_PLAIN = _STRUCTURE | _ARITHMETIC | _VIEWS | _PIECES


def describe(view: View) -> Iterator[Finding]:
    """One finding for each operator and source line that no fact covers, where it depends on the input."""
    facts = view.facts
    named = (facts.norms, facts.tables, facts.ropes, facts.attentions, facts.experts, facts.activations)
    covered = {node for each in named for fact in each for node in fact.nodes}
    for node in view.index.nodes.values():
        if node.id in view.index.live and node.id not in covered and _computes(view, node):
            yield Finding(node.op, node.where, view.layer(node.frame), usual=False)


def _computes(view: View, node: Node) -> bool:
    return node.op not in _PLAIN and not view.index.constant(node.id)
