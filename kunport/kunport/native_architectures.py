"""The architectures for which the installed vLLM has classes of its own, read from its source: importing it is slow."""

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
    registry = Path(spec.submodule_search_locations[0], _REGISTRY)
    try:
        tree = ast.parse(registry.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    tables = [node.value for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)]
    return frozenset(name for table in tables for name in _own_classes(table)) or None


def _own_classes(table: ast.Dict) -> list[str]:
    """The keys whose value is a pair of a module, which is not the backend, and a class."""
    return [
        key.value
        for key, value in zip(table.keys, table.values, strict=True)
        if isinstance(key, ast.Constant)
        and isinstance(key.value, str)
        and isinstance(value, ast.Tuple)
        and isinstance(value.elts[0], ast.Constant)
        and value.elts[0].value != _BACKEND
    ]
