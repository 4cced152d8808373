"""Values that no configuration has: they would only exhaust what works with them, or build no model."""

from __future__ import annotations

import re
from typing import Any

from kunport_codegen.expression import fields_of, unwrap
from kunport_codegen.graph import Graph, Node

from kunport.errors import KunportError

LARGEST = 1 << 40  # a thousand times the longest vocabulary, sequence or layer there is
_LONGEST = 1 << 27  # elements along one side of a weight: a hundred times the largest vocabulary
LAYERS = 1024  # several times the deepest model: all are read, one by one
_LAYERS = re.compile(r"(num_(hidden_)?|n_)layers?")
# Fields that count something, in the names that they have anywhere.
_COUNTS = re.compile(r"(num_(hidden_)?|n_)(layers?|heads?)|num_(attention|key_value)_heads|hidden_size|d_model|n_embd")
# How a constructor of the source ends on values that it cannot take.
_IMPOSSIBLE = re.compile(r"__init__ raises (ZeroDivisionError|ValueError|AssertionError|(Type|Runtime)Error: the size)")
_NEAR = 6  # lines above a ``raise`` in which the decision for it is looked for


def check_numbers(config: dict[str, Any]) -> None:
    """Refuses whole numbers beyond `LARGEST`, at any depth, counts that are negative or no whole numbers, and too many
    layers.

    Raises:
        KunportError: there is one; its field is named.
    """
    for path, value in _numbers(config, ""):
        if isinstance(value, int) and abs(value) > LARGEST:
            raise KunportError(f"The field {path} is a number of {len(str(abs(value)))} digits.", "Correct it.")
        counts = _COUNTS.fullmatch(path.rpartition(".")[2]) is not None
        if counts and (value < 0 or value != value // 1):
            raise KunportError(
                f"The field {path} is {value!r}, which counts nothing.", "Give a whole number that is not negative."
            )
        _check_layers(path, value)


def _check_layers(path: str, value: float) -> None:
    if value > LAYERS and _LAYERS.fullmatch(path.rpartition(".")[2]):
        raise KunportError(
            f"The field {path} is {value:,}: kunport reads models of at most {LAYERS:,} layers.", "Correct it."
        )


def _numbers(value: Any, path: str) -> list[tuple[str, int | float]]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [(path, value)]
    if isinstance(value, dict):
        return [each for key, held in value.items() for each in _numbers(held, f"{path}.{key}" if path else str(key))]
    if isinstance(value, list | tuple):
        return [each for at, held in enumerate(value) for each in _numbers(held, f"{path}[{at}]")]
    return []


def check_built(graph: Graph, given: dict[str, Any]) -> None:
    """Refuses a configuration of which the source's own constructor cannot build the model.

    Args:
        graph: what was read.
        given: the fields that the user gave, at the top level.

    Raises:
        KunportError: a constructor ends in an error that the values of some of these fields lead to; they are named.
            Or a weight would have a size that none has.
    """
    for path, parameter in graph.parameters.items():
        for size in map(unwrap, parameter.shape):
            if not 0 <= size <= _LONGEST:
                raise KunportError(
                    f"{graph.architecture} cannot be built: {path} would have a side of {size:,} elements.",
                    "Correct the sizes in the configuration.",
                )
    for node in graph.unknowns():
        reason = str(node.args[0])
        blamed = _blamed(graph, node, given) if _IMPOSSIBLE.match(reason) else []
        if blamed:
            values = " and ".join(f"{name} is {given[name]!r}" for name in blamed)
            raise KunportError(
                f"{graph.architecture} cannot be built: {node.where}: {reason}, where {values}.",
                "Correct it in the configuration.",
            )


def _blamed(graph: Graph, node: Node, given: dict[str, Any]) -> list[str]:
    """The given fields that a raised error comes from: zeros that were divided by, sizes, or what a check reads."""
    reason = str(node.args[0])
    if "ZeroDivisionError" in reason:
        return [name for name, value in given.items() if value == 0 and isinstance(value, int | float)][:2]
    if "the size of a parameter" in reason:
        return [name for name, value in given.items() if _COUNTS.fullmatch(name) and not isinstance(value, int)][:2]
    near = [each for each in graph.guards if 0 <= node.where.line - each.where.line <= _NEAR]
    near = [each for each in near if each.where.file == node.where.file]
    return sorted({field for each in near for field in fields_of(each.expr) if field in given})
