"""Source lines of LibCST nodes, without LibCST's metadata."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, cast

import libcst as cst
from kunport_codegen.graph import Location


class Positions:
    """Locations in one file, which they call ``file``.

    Statements are aligned with Python's own tree when they are parsed (`align`). The lines of expressions are only
    worked out for statements that span several lines, when such a statement is first run (`refine`).

    Attributes:
        syntax: Python's own tree of each class and import.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.syntax: dict[cst.CSTNode, ast.stmt] = {}
        self._known: dict[cst.CSTNode, Location] = {}
        self._several: dict[cst.CSTNode, int] = {}
        self._locations: dict[int, Location] = {}

    def location(self, node: cst.CSTNode) -> Location | None:
        """Where a node is: that of any statement is known, of expressions only where `refine` found it."""
        return self._known.get(node)

    def align(self, statements: Sequence[ast.AST], nodes: Sequence[cst.CSTNode]) -> None:
        """Notes the lines of statements of both trees, blocks included."""
        flat: list[cst.CSTNode] = []
        for node in nodes:
            flat.extend(node.body if isinstance(node, cst.SimpleStatementLine) else [node])
        for statement, node in zip(statements, flat, strict=True):
            assert isinstance(statement, ast.stmt)
            self._note(node, statement.lineno)
            if statement.end_lineno != statement.lineno:
                self._several[node] = statement.lineno
            if isinstance(node, cst.ClassDef | cst.Import | cst.ImportFrom):
                self.syntax[node] = statement
            self._align_blocks(statement, node)

    def _align_blocks(self, statement: ast.stmt, node: cst.CSTNode) -> None:
        for block in ("body", "orelse", "finalbody"):
            inner, part = getattr(statement, block, None), getattr(node, block, None)
            if inner and part is not None:
                self.align(inner, [part] if isinstance(part, cst.If) else suite(part))
        for handler, part in zip(getattr(statement, "handlers", ()), getattr(node, "handlers", ()), strict=True):
            self.align(handler.body, suite(part))

    def refine(self, node: cst.CSTNode) -> None:
        """Works out the lines of the expressions of a statement that spans several lines, once."""
        line = self._several.pop(node, None)
        if line is not None:
            above = set(getattr(node, "leading_lines", ()))  # blank lines and comments come before the first line
            for child in node.children:
                if child not in above:
                    line = self._count(child, line)

    def _note(self, node: cst.CSTNode, line: int) -> None:
        if line not in self._locations:
            self._locations[line] = Location(self.file, line)
        self._known[node] = self._locations[line]

    def _count(self, node: cst.CSTNode, line: int) -> int:
        """Notes the line of each expression below ``node``, which begins on ``line``; returns the line it ends on."""
        if isinstance(node, cst.BaseSuite):
            return line
        if isinstance(node, cst.Newline):
            return line + 1
        if isinstance(node, cst.SimpleWhitespace | cst.SimpleString | cst.FormattedStringText):
            self._note(node, line)
            return line + node.value.count("\n")
        start = line
        for child in node.children:
            line = self._count(child, line)
        if isinstance(node, cst.BaseExpression):
            # A call in a chain over several lines is at its name, not at the start of the chain.
            anchor = node.func if isinstance(node, cst.Call) else node.attr if isinstance(node, cst.Attribute) else None
            self._note(node, start if anchor is None else self._known[anchor].line)
        return line


def suite(node: Any) -> Sequence[cst.CSTNode]:
    """The statements below a block, an ``else``, an ``except`` or a ``finally``."""
    block = node if isinstance(node, cst.BaseSuite) else node.body
    return cast("Sequence[cst.CSTNode]", block.body)
