"""Attention bodies that stand beside the one that is analysed, and that may not compute the same.

Custom code often has a dictionary of them by implementation (``{"eager": ..., "flash_attention_2": ...}``). Only the
eager one is read, for that is what runs everywhere; where another one reads fields of the configuration that it does
not, such as a window, that is said.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kunport.analysis.library.roots import fields_read
from kunport.analysis.source import SourceFile

_READ = "eager"


def disagreements(file: SourceFile) -> list[str]:
    """A sentence for each class of the file that reads fields which its eager counterpart does not."""
    module = file.check()
    classes = {each.name: each for each in module.body if isinstance(each, ast.ClassDef)}
    found = []
    for name, table in _tables(module, classes):
        own = _fields(classes, table[_READ])
        for implementation, other in table.items():
            if more := [field for field in _fields(classes, other) if field not in own]:
                found.append(
                    f"{file.name}:{classes[other].lineno}: {other}, which {name} has for {implementation}, reads "
                    f"{', '.join(f'config.{field}' for field in more)}, and {table[_READ]} does not: "
                    f"they may compute different things, and the latter is what was analysed"
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
    """The fields of the configuration that a class and its bases in the file read."""
    lineage, pending = [], [name]
    while pending:
        one = pending.pop()
        if one in classes and classes[one] not in lineage:
            lineage.append(classes[one])
            pending += [base.id for base in classes[one].bases if isinstance(base, ast.Name)]
    return fields_read(lineage, "config")
