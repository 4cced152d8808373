"""Attention bodies that stand beside the one that is analysed, and that may not compute the same.

Custom code often has a dictionary of them by implementation (``{"eager": ..., "flash_attention_2": ...}``). Only the
eager one is read, for that is what runs everywhere; where another one reads other fields of the configuration, such as
a window that only one of them has, that is said.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kunport.analysis.library.roots import fields_read
from kunport.analysis.source import SourceFile

_READ = "eager"


def disagreements(file: SourceFile) -> list[str]:
    """A sentence for each class of the file that reads other fields than its eager counterpart."""
    module = file.check()
    classes = {each.name: each for each in module.body if isinstance(each, ast.ClassDef)}
    found = []
    for name, table in _tables(module, classes):
        own = _fields(classes, table[_READ])
        for implementation, other in table.items():
            theirs = _fields(classes, other)
            more = [f"config.{field}" for field in theirs if field not in own]
            fewer = [f"config.{field}" for field in own if field not in theirs]
            if more or fewer:
                reads = f"reads {', '.join(more)}, and {table[_READ]} does not" if more else ""
                lacks = f"does not read {', '.join(fewer)}, and {table[_READ]} does" if fewer else ""
                found.append(
                    f"{file.name}:{classes[other].lineno}: {other}, which {name} has for {implementation}, "
                    f"{'; it '.join(filter(None, (reads, lacks)))}: they may compute different things, "
                    f"and {table[_READ]} is what was analysed"
                )
    return found


def _tables(module: ast.Module, classes: dict[str, ast.ClassDef]) -> Iterator[tuple[str, dict[str, str]]]:
    """Name and content of each dictionary of classes that has an eager one."""
    for statement in module.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(keys=keys, values=values)):
                pairs = zip(keys, values, strict=True)
                table = {
                    str(key.value): value.id
                    for key, value in pairs
                    if isinstance(key, ast.Constant) and isinstance(value, ast.Name) and value.id in classes
                }
                if _READ in table:
                    yield name, table


def _fields(classes: dict[str, ast.ClassDef], name: str) -> list[str]:
    """The fields of the configuration that a class reads, and its bases in the file where it overrides nothing."""
    members: list[ast.stmt] = []
    seen, overridden, pending = set[str](), set[str](), [name]
    while pending:
        one = pending.pop()
        if one not in classes or one in seen:
            continue
        seen.add(one)
        own = [each for each in classes[one].body if getattr(each, "name", "") not in overridden]
        members += own
        overridden |= {each.name for each in own if isinstance(each, ast.FunctionDef) and not _extends(each)}
        pending += [base.id for base in classes[one].bases if isinstance(base, ast.Name)]
    return fields_read(members, "config")


def _extends(method: ast.FunctionDef) -> bool:
    """Whether a method calls the one that it overrides, as far as a glance tells."""
    return any(isinstance(each, ast.Name) and each.id == "super" for each in ast.walk(method))
