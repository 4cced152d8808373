"""Source files, read lazily: a cheap scan finds what a file defines, and only what is reached is parsed.

A modeling file is 20 to 100 KB, of which an analysis reaches a tenth. So a file is first cut into *chunks*, its
top-level statements, by a regular expression that knows strings and comments, and only those that are reached are
parsed. Python's own trees are enough: what they leave out, spaces and comments, says nothing about a model.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sys
import tokenize
from dataclasses import dataclass
from functools import cached_property, lru_cache
from io import BytesIO
from pathlib import Path

from kunport_codegen.graph import Location

from kunport.analysis.file_size import check_file
from kunport.analysis.parsing import UnparsableError, parse
from kunport.errors import KunportError

# Strings and comments are matched only to be stepped over: what they hold may look like a definition.
_TOKENS = re.compile(
    r'''"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""|\'\'\'[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*\'\'\''''
    r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\#[^\n]*|^(?P<word>@|[A-Za-z_]\w*)""",
    re.DOTALL | re.MULTILINE,
)
_DEFINITION = re.compile(r"(?:async\s+)?(class|def)\s+(\w+)")
_ASSIGNMENT = re.compile(r"(\w+)\s*(?::[^=\n]*)?=(?!=)")
_VERSION = ".".join(map(str, sys.version_info[:2]))  # the syntax that its own parser takes
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
        places = [(self.folder.joinpath(*dotted.split("."), "__init__.py"), dotted)]
        if dotted:  # the folder itself, of `from . import x`, is no module beside itself
            package, _, name = dotted.rpartition(".")
            places.insert(0, (self.folder.joinpath(*package.split("."), f"{name}.py"), package))
        for path, package in places:
            if os.path.isfile(path):  # unlike Path.is_file, it says no where a name is too long to be a file's
                return path, package
        return None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A top-level statement of lines ``first`` to ``last``: ``class``, ``def``, ``import``, ``assign`` or ``other``."""

    kind: str
    name: str
    first: int
    last: int


def _decoded(path: Path, data: bytes) -> str:
    """The text of a file: UTF-8, or in the encoding that its first lines declare."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    try:
        return data.decode(tokenize.detect_encoding(BytesIO(data).readline)[0])
    except (UnicodeDecodeError, SyntaxError):
        raise KunportError(f"{path} is not UTF-8 text, and declares nothing else.", "Save it as UTF-8.") from None


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
        check_file(path)
        data = path.read_bytes()
        self.digest = hashlib.sha256(data).hexdigest()
        self.text = _decoded(path, data).replace("\r\n", "\n")
        self.lines = self.text.split("\n")
        self._statements: dict[tuple[int, int], list[ast.stmt]] = {}
        self._locations: dict[int, Location] = {}

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
        if (first, last) not in self._statements:
            self._statements[first, last] = self._parse_lines(first, last)
        return self._statements[first, last]

    def _parse_lines(self, first: int, last: int) -> list[ast.stmt]:
        try:
            return parse("\n" * (first - 1) + "\n".join(self.lines[first - 1 : last])).body
        except UnparsableError as error:
            if error.deep:
                raise self._too_deep(first) from None
            # The scan may have cut inside brackets: code at the first column there is legal.
            return [statement for statement in self.check().body if first <= statement.lineno <= last]

    def check(self) -> ast.Module:
        """The whole file by Python's parser.

        Raises:
            KunportError: it is not valid Python; the line is named.
        """
        try:
            return parse(self.text)
        except UnparsableError as error:
            if error.deep:
                raise self._too_deep(1) from None
            line = error.line or self.text[: max(self.text.find("\0"), 0)].count("\n") + 1
            raise KunportError(
                f"{self.path}, line {line}, is not valid Python {_VERSION}: {error.reason}.",
                "Correct that line; where a newer Python would take it, write it as this one does.",
            ) from None

    def _too_deep(self, line: int) -> KunportError:
        return KunportError(
            f"{self.path} nests expressions too deeply, from line {line} on.", "Give source that Python can compile."
        )

    def location(self, line: int) -> Location:
        """A line of the file, the same object each time."""
        if line not in self._locations:
            self._locations[line] = Location(self.name, line)
        return self._locations[line]


def open_source(path: Path, name: str) -> SourceFile:
    """A file that locations call ``name``. It is read and parsed once a process for as long as it stays the same."""
    status = path.stat()
    return _open(path, name, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=256)
def _open(path: Path, name: str, modified: int, size: int) -> SourceFile:
    return SourceFile(path, name)


def _chunk(head: str, first: int, last: int) -> Chunk:
    if match := _DEFINITION.match(head):
        return Chunk(match.group(1), match.group(2), first, last)
    if head.startswith(("import ", "from ")):
        return Chunk("import", "", first, last)
    if match := _ASSIGNMENT.match(head):
        return Chunk("assign", match.group(1), first, last)
    return Chunk("other", "", first, last)
