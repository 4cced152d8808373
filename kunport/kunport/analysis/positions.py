"""Which line an expression stands on."""

from __future__ import annotations

import ast


def line_of(node: ast.stmt | ast.expr) -> int:
    """The line that a node is shown at: where it begins, a call in a chain over several lines at its name."""
    while isinstance(node, ast.Call):
        node = node.func
    line = node.end_lineno if isinstance(node, ast.Attribute) else node.lineno
    return line or node.lineno
