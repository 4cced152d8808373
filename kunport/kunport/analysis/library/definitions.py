"""What a Python file defines at its top level, found by its unindented lines and without a full parse.

The tables of Transformers and the files of a checkpoint are large; of each only a few statements matter here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kunport.analysis.file_size import check_file
from kunport.analysis.parsing import UnparsableError, parse

_CLASS = re.compile(r"^class[ \t]+(\w+)", re.MULTILINE)


def classes(source: str) -> list[str]:
    """Names of the classes defined at the top level, in order."""
    return _CLASS.findall(source)


def statements(source: str, name: str) -> Iterator[str]:
    """The text of each unindented statement that begins with the name: assignments, and calls on it."""
    for start in re.finditer(rf"^{re.escape(name)}\b", source, re.MULTILINE):
        # It ends before the next line whose first column starts something new rather than closing a bracket.
        end = re.compile(r"^(?![ \t\r\n)\]}#])", re.MULTILINE).search(source, source.find("\n", start.start()) + 1)
        yield source[start.start() : end.start() if end else len(source)]


def class_body(source: str, name: str) -> ast.ClassDef | None:
    """The parsed class of that name, without its decorators, None where there is none that Python can parse."""
    text = next(statements(source, f"class {name}"), None)
    # Unindented text in a docstring ends a statement early: then the whole file is parsed.
    for candidate in () if text is None else (text, source):
        try:
            body = parse(candidate).body
        except UnparsableError:
            continue
        return next((each for each in body if isinstance(each, ast.ClassDef) and each.name == name), None)
    return None


def table(source: str, name: str, known: dict[str, Any] | None = None) -> dict[str, Any]:
    """The dictionary that the file binds to a name, later updates and rebinding included.

    ``known`` is the value that the name has before the file's first statement about it (an imported table).

    Raises:
        ValueError: a statement is no dictionary of literals and of other tables of the file.
    """
    try:
        return _table(source, name, known)
    except (TypeError, RecursionError, MemoryError) as error:  # other literals, and tables that name each other
        raise ValueError(f"{name} is no table") from error


def _table(source: str, name: str, known: dict[str, Any] | None = None) -> dict[str, Any]:
    value = dict(known or {})

    def lookup(other: str) -> dict[str, Any]:
        return value if other == name else _table(source, other)

    for text in statements(source, name):
        statement = parse(text).body[0]
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            value = _mapping(statement.value, lookup)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            call = statement.value
            if isinstance(call.func, ast.Attribute) and call.func.attr == "update" and len(call.args) == 1:
                value |= _mapping(call.args[0], lookup)
    return value


def _mapping(node: ast.expr, lookup: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """A dictionary display, ``OrderedDict(pairs)``, ``OrderedDict(**a, **b)`` or the name of a table."""
    if isinstance(node, ast.Name):
        return dict(lookup(node.id))
    if not isinstance(node, ast.Call):
        return dict(ast.literal_eval(node))
    result: dict[str, Any] = {}
    for argument in node.args:
        result |= _pairs(argument, lookup)
    for keyword in node.keywords:
        value = keyword.value
        result |= _mapping(value, lookup) if keyword.arg is None else {keyword.arg: ast.literal_eval(value)}
    return result


def _pairs(node: ast.expr, lookup: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """A list of literal pairs, in which ``*list(TABLE.items())`` may stand."""
    if not isinstance(node, ast.List):
        return _mapping(node, lookup)
    result: dict[str, Any] = {}
    for element in node.elts:
        if isinstance(element, ast.Starred):
            names = [part.id for part in ast.walk(element) if isinstance(part, ast.Name) and part.id != "list"]
            for name in names:
                result |= lookup(name)
        else:
            key, value = ast.literal_eval(element)
            result[key] = value
    return result


def read_source(path: Path) -> str:
    """The text of a Python file without a byte-order mark; bytes that are no UTF-8 become replacement characters."""
    check_file(path)
    return path.read_text(encoding="utf-8-sig", errors="replace")
