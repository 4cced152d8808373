"""Source files, read lazily: a cheap scan finds what a file defines, and only what is reached is parsed.

A modeling file is 20 to 100 KB, of which an analysis reaches a tenth, and LibCST parses half a megabyte a second. So a
file is first cut into *chunks*, its top-level statements, by a regular expression that knows strings and
comments; classes are cut further into members. Line numbers come from Python's own parser, which is twenty
times as fast, by walking both trees side by side; LibCST's position metadata would cost more than the analysis.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import libcst as cst

from kunport.errors import KunportError

# Strings and comments are matched only to be stepped over: what they hold may look like a definition.
_TOKENS = re.compile(
    r'''"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""|\'\'\'[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*\'\'\''''
    r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\#[^\n]*|^(?P<word>@|[A-Za-z_]\w*)""",
    re.DOTALL | re.MULTILINE,
)
_DEFINITION = re.compile(r"(?:async\s+)?(class|def)\s+(\w+)")
_ASSIGNMENT = re.compile(r"(\w+)\s*(?::[^=\n]*)?=(?!=)")
_CONTINUATIONS = {"else", "elif", "except", "finally"}


@dataclass(frozen=True, slots=True)
class Root:
    """A folder below which modules are looked for: those of one ``package``, or any where that is empty."""

    folder: Path
    package: str = ""

    def find(self, dotted: str) -> tuple[Path, str] | None:
        """The file of a module and the package that its relative imports start from, None where it has none."""
        if self.package and dotted.partition(".")[0] != self.package:
            return None
        place = self.folder.joinpath(*dotted.split("."))
        for path, package in ((place.with_suffix(".py"), dotted.rpartition(".")[0]), (place / "__init__.py", dotted)):
            if path.is_file():
                return path, package
        return None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A top-level statement of lines ``first`` to ``last``: ``class``, ``def``, ``import``, ``assign`` or ``other``."""

    kind: str
    name: str
    first: int
    last: int


class SourceFile:
    """A Python file as text, cut into chunks.

    Attributes:
        path: where it is.
        name: how locations name it.
        text, lines: its content.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name
        data = path.read_bytes()
        self.digest = hashlib.sha256(data).hexdigest()
        try:
            self.text = data.decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError:
            raise KunportError(f"{path} is not UTF-8 text.", "Save it as UTF-8.") from None
        self.lines = self.text.split("\n")
        self.positions = Positions()

    @cached_property
    def chunks(self) -> list[Chunk]:
        starts: list[tuple[int, str]] = []
        line, at, decorated = 1, 0, False
        for match in _TOKENS.finditer(self.text):
            word = match.group("word")
            if word is None or word in _CONTINUATIONS:
                continue
            line += self.text.count("\n", at, match.start())
            at = match.start()
            if decorated:  # what a decorator decorates belongs to its chunk
                starts[-1] = (starts[-1][0], self.lines[line - 1])
            else:
                starts.append((line, self.lines[line - 1]))
            decorated = word == "@"
        ends = [start - 1 for start, _ in starts[1:]] + [len(self.lines)] * bool(starts)
        return [_chunk(head, first, last) for (first, head), last in zip(starts, ends, strict=True)]

    def statements(self, first: int, last: int) -> list[ast.stmt]:
        """The statements of whole lines, by Python's parser, with line numbers of the file."""
        try:
            return ast.parse("\n" * (first - 1) + "\n".join(self.lines[first - 1 : last])).body
        except SyntaxError:  # the scan may have cut inside brackets: code at the first column there is legal
            return [statement for statement in self.check().body if first <= statement.lineno <= last]

    def check(self) -> ast.Module:
        """The whole file by Python's parser.

        Raises:
            KunportError: it is not valid Python; the line is named.
        """
        try:
            return ast.parse(self.text)
        except SyntaxError as error:
            raise KunportError(
                f"{self.path}, line {error.lineno}, is not valid Python: {error.msg}.", "Correct that line."
            ) from None

    def parse(self, statement: ast.stmt) -> cst.BaseStatement:
        """The LibCST tree of a statement of the file, at any depth, with its positions noted."""
        decorators = getattr(statement, "decorator_list", [])
        first = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
        text = "\n".join(self.lines[first - 1 : statement.end_lineno])
        nested = statement.col_offset > 0
        with _no_collection():
            try:
                module = cst.parse_module(f"class _:\n{text}\n" if nested else text + "\n")
            except cst.ParserSyntaxError as error:
                raise KunportError(
                    f"{self.path}, line {first + error.raw_line - 1}, is beyond LibCST's grammar.", "Correct that line."
                ) from None
        node = _suite(module.body[0])[0] if nested else module.body[0]
        self.positions.align([statement], [node])
        assert isinstance(node, cst.BaseStatement)
        return node


def _chunk(head: str, first: int, last: int) -> Chunk:
    if match := _DEFINITION.match(head):
        return Chunk(match.group(1), match.group(2), first, last)
    if head.startswith(("import ", "from ")):
        return Chunk("import", "", first, last)
    if match := _ASSIGNMENT.match(head):
        return Chunk("assign", match.group(1), first, last)
    return Chunk("other", "", first, last)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Trees are long-lived: letting the garbage collector walk them while they grow doubles the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Positions:
    """Line numbers of LibCST nodes.

    Statements are aligned with Python's own tree when they are parsed. The lines of expressions are only worked out for
    statements that span several lines, when such a statement is first run (`refine`).
    """

    def __init__(self) -> None:
        self.syntax: dict[cst.CSTNode, ast.stmt] = {}
        self._lines: dict[cst.CSTNode, int] = {}
        self._several: dict[cst.CSTNode, int] = {}

    def line(self, node: cst.CSTNode) -> int | None:
        return self._lines.get(node)

    def align(self, statements: Sequence[ast.AST], nodes: Sequence[cst.CSTNode]) -> None:
        flat: list[cst.CSTNode] = []
        for node in nodes:
            flat.extend(node.body if isinstance(node, cst.SimpleStatementLine) else [node])
        for statement, node in zip(statements, flat, strict=True):
            assert isinstance(statement, ast.stmt)
            self._lines[node] = statement.lineno
            if statement.end_lineno != statement.lineno:
                self._several[node] = statement.lineno
            self._align_blocks(statement, node)

    def _align_blocks(self, statement: ast.stmt, node: cst.CSTNode) -> None:
        if isinstance(node, cst.ClassDef | cst.Import | cst.ImportFrom):
            self.syntax[node] = statement
        for block in ("body", "orelse", "finalbody"):
            inner, part = getattr(statement, block, None), getattr(node, block, None)
            if inner and part is not None:
                self.align(inner, [part] if isinstance(part, cst.If) else _suite(part))
        for handler, part in zip(getattr(statement, "handlers", ()), getattr(node, "handlers", ()), strict=True):
            self.align(handler.body, _suite(part))

    def refine(self, node: cst.CSTNode) -> None:
        """Work out the lines of the expressions of a statement that spans several lines, once."""
        line = self._several.pop(node, None)
        if line is not None:
            self._count(node, line)

    def _count(self, node: cst.CSTNode, line: int) -> int:
        """Note the line of each expression below ``node``, which begins on ``line``; returns the line it ends on."""
        if isinstance(node, cst.BaseSuite):
            return line
        if isinstance(node, cst.Newline):
            return line + 1
        if isinstance(node, cst.SimpleWhitespace | cst.SimpleString | cst.FormattedStringText):
            self._lines[node] = line
            return line + node.value.count("\n")
        start = line
        for child in node.children:
            line = self._count(child, line)
        if isinstance(node, cst.BaseExpression):
            # A call in a chain over several lines is at its name, not at the start of the chain.
            anchor = node.func if isinstance(node, cst.Call) else node.attr if isinstance(node, cst.Attribute) else None
            self._lines[node] = self._lines.get(anchor, start) if anchor is not None else start
        return line


def _suite(node: Any) -> Sequence[cst.CSTNode]:
    """The statements below a block, an ``else``, an ``except`` or a ``finally``."""
    suite = node if isinstance(node, cst.BaseSuite) else node.body
    return cast("Sequence[cst.CSTNode]", suite.body)
