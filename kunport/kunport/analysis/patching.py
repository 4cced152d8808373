"""What the top level of a file does to names that are not its own: functions of a library replaced, names set by text.

Python lets a file assign to an attribute of any module, so `F.silu = F.gelu` changes what every other file computes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

# Functions and attributes by which a statement may bind names that it does not spell.
_BY_TEXT = frozenset(("exec", "globals", "vars", "locals"))
_WRITERS = frozenset(("update", "setdefault", "pop", "__setitem__", "__setattr__"))


def patched(statement: ast.stmt) -> Iterator[str]:
    """Dotted paths of the attributes and items that a statement of the top level sets, from the name they start at.

    An item counts as the whole of what holds it, and so does an attribute whose name is computed.
    """
    for each in _outside_of_definitions(statement):
        match each:
            case ast.Attribute(ctx=ast.Store() | ast.Del()):
                yield from _dotted(each)
            case ast.Subscript(value=value, slice=key, ctx=ast.Store() | ast.Del()):
                named = isinstance(key, ast.Constant) and isinstance(key.value, str) and _is_dictionary(value)
                yield from (f"{path}.{ast.literal_eval(key)}" if named else path for path in _dotted(value))
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[value, ast.Constant(value=str(name)), *_]):
                yield from (f"{path}.{name}" for path in _dotted(value))
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[value, *_]):
                yield from _dotted(value)
            case ast.Call(
                func=ast.Attribute(attr="object" | "setattr"), args=[value, ast.Constant(value=str(name)), *_]
            ):
                yield from (f"{path}.{name}" for path in _dotted(value))  # `mock.patch.object` and its like


def binds_by_text(statement: ast.stmt) -> str | None:
    """What in a statement may bind any name of the file, such as ``exec``; None where each binding is spelled."""
    for each in _outside_of_definitions(statement):
        match each:
            case ast.Call(func=ast.Name(id="exec")):
                return "exec"
            case ast.Subscript(value=held, ctx=ast.Store() | ast.Del()) if name := _namespace(held):
                return name
            case ast.Call(func=ast.Attribute(value=held, attr=attr)) if attr in _WRITERS and (name := _namespace(held)):
                return name
            case ast.Attribute(value=ast.Subscript(value=held), ctx=ast.Store() | ast.Del()) if _is_modules(held):
                return "sys.modules"
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[ast.Subscript(value=held), *_]) if _is_modules(
                held
            ):
                return "sys.modules"
    return None


def _namespace(node: ast.expr) -> str | None:
    """``globals()`` and its like, where a node is a call of it without arguments."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=[]) if name in _BY_TEXT:
            return f"{name}()"
    return "sys.modules" if _is_modules(node) else None


def _is_modules(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.modules"


def _is_dictionary(node: ast.expr) -> bool:
    """Whether items of it are attributes of something else."""
    match node:
        case ast.Attribute(attr="__dict__") | ast.Call(func=ast.Name(id="vars")):
            return True
    return False


def _dotted(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Name(id=name):
            yield name
        case ast.Attribute(value=value, attr=attr):
            yield from (path if attr == "__dict__" else f"{path}.{attr}" for path in _dotted(value))
        case ast.Call(func=ast.Name(id="vars"), args=[value]) | ast.Subscript(value=value):
            yield from _dotted(value)


def _outside_of_definitions(statement: ast.stmt) -> Iterator[ast.AST]:
    """A statement and all in it that runs where it does: not the bodies of functions and classes."""
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        yield node
        pending.extend(ast.iter_child_nodes(node))
