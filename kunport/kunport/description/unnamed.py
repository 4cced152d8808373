"""Operators that belong to nothing with a name: what is computed as written, and where a kernel could help."""

from __future__ import annotations

from collections.abc import Iterator

from kunport_codegen.graph import Node

from kunport.description.findings import Finding
from kunport.variants.model import Model

# Operators that every model has between the named ones.
_STRUCTURE = frozenset(("input", "parameter", "mask", "item", "loop", "unknown"))
_ARITHMETIC = frozenset(("add", "sub", "mul", "div", "neg", "to", "type_as", "linear", "matmul", "embedding", "tanh"))
_VIEWS = frozenset(
    ("reshape", "view", "transpose", "permute", "expand", "unsqueeze", "squeeze", "flatten", "unflatten")
)
_PIECES = frozenset(("getitem", "split", "chunk", "unbind", "cat", "stack", "repeat_interleave"))
_PLAIN = _STRUCTURE | _ARITHMETIC | _VIEWS | _PIECES


def unnamed(model: Model) -> Iterator[Finding]:
    """One finding for each operator and source line that no fact covers, where it depends on the input."""
    for node in model.index.nodes.values():
        if node.id in model.index.live and node.id not in model.covered and _computes(model, node):
            layer = model.layer_of(node)
            yield Finding(node.op, node.where, layer.number if layer is not None else None, usual=False)


def _computes(model: Model, node: Node) -> bool:
    return node.op not in _PLAIN and not model.index.constant(node.id)
