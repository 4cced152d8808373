"""The architectures for which vLLM has classes of its own, read from its registry's source: importing it is slow."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

_REGISTRY = "model_executor/models/registry.py"
_BACKEND = "transformers"  # the module that serves any model of Transformers


def native_architectures() -> frozenset[str] | None:
    """Architecture names; None where vLLM is not installed, or its registry is not written as tables of names."""
    spec = find_spec("vllm")
    if spec is None or not spec.submodule_search_locations:
        return None
    try:
        tables = native_tables(Path(spec.submodule_search_locations[0], _REGISTRY).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
    return frozenset(name for table in tables.values() for name in table) or None


def native_tables(source: str) -> dict[str, dict[str, str]]:
    """Table of a registry's source -> architecture -> the module of its class, the backend's left out.

    Raises:
        SyntaxError: it is no Python.
    """
    tables: dict[str, dict[str, str]] = {}
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.AnnAssign | ast.Assign) and isinstance(statement.value, ast.Dict):
            targets = [statement.target] if isinstance(statement, ast.AnnAssign) else statement.targets
            tables |= {each.id: _own_classes(statement.value) for each in targets if isinstance(each, ast.Name)}
    return tables


def _own_classes(table: ast.Dict) -> dict[str, str]:
    """The entries that are a pair of a module, which is not the backend, and a class."""
    return {
        key.value: value.elts[0].value
        for key, value in zip(table.keys, table.values, strict=True)
        if isinstance(key, ast.Constant)
        and isinstance(key.value, str)
        and isinstance(value, ast.Tuple)
        and isinstance(value.elts[0], ast.Constant)
        and isinstance(value.elts[0].value, str)
        and value.elts[0].value != _BACKEND
    }
