"""What a checkpoint holds of the tables that the constructor computes, held against these."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kunport_codegen.graph import Graph, Node

from kunport.analysis.checkpoint import StoredTensor, read_checkpoint

if TYPE_CHECKING:
    import numpy as np

_LARGEST = 5_000_000  # elements: a mask for 2048 positions
# How much rounding may change a number, and far out a cosine, by the dtype that it is stored in.
_NEAR = {"bfloat16": 1e-2}
_NEAR_ELSE = 5e-3
_FORMS = {"float32": "<f4", "float64": "<f8", "float16": "<f2", "bfloat16": "<u2", "bool": "?", "uint8": "u1"}
_FORMS |= {"int8": "i1", "int16": "<i2", "int32": "<i4", "int64": "<i8"}


def keep_to_checkpoint(graph: Graph, folder: Path) -> None:
    """Take the checkpoint's word where it holds something else than the constructor computes.

    The graph then reads the tensor as it reads a parameter, and says so in its notes. Tensors of more than 5 million
    elements are not compared.

    Raises:
        KunportError: the checkpoint is broken.
    """
    tables = {path: each for path, each in graph.parameters.items() if each.initial is not None}
    if not tables:
        return
    nodes = {node.id: node for node in graph.nodes}
    stored = read_checkpoint(folder)
    for path, table in tables.items():
        made = nodes.get(table.initial or 0)
        if path not in stored or made is None or not _differs(nodes, made.id, stored[path], path):
            continue
        graph.notes.append(f"the checkpoint holds another {path} than the constructor computes: its value is unknown")
        graph.parameters[path] = replace(table, initial=None)
        made.op, made.args, made.kwargs = "parameter", (path,), {}


def _differs(nodes: Mapping[int, Node], table: int, stored: StoredTensor, name: str) -> bool:
    """Whether the elements are others, as far as both are known."""
    import numpy as np
    from kunport_codegen.recognition.evaluate import UnevaluableError, evaluate

    if math.prod(stored.shape) > _LARGEST or (held := _values(stored, name)) is None:
        return False
    try:
        made = np.asarray(evaluate(nodes, table, {}))
    except UnevaluableError:
        return False
    if made.shape != held.shape or made.dtype.kind == "c":
        return bool(made.shape != held.shape)
    near = _NEAR.get(stored.dtype, _NEAR_ELSE)
    signed = made.dtype.kind == "f" and bool(np.any(made < 0))  # cosines and sines, whose zeros are only nearly that
    return not np.allclose(made.astype(float), held, rtol=near, atol=near if signed else 0.0)


def _values(stored: StoredTensor, name: str) -> np.ndarray[Any, Any] | None:
    """The elements as float64, None for a dtype that has no place here. The header was read, so it is whole."""
    import numpy as np

    if stored.dtype not in _FORMS:
        return None
    with stored.file.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        start, end = json.loads(file.read(length))[name]["data_offsets"]
        file.seek(8 + length + start)
        raw = np.frombuffer(file.read(end - start), dtype=_FORMS[stored.dtype])
    if stored.dtype == "bfloat16":  # the upper half of a float32
        raw = (raw.astype("<u4") << 16).view("<f4")
    return raw.astype(float).reshape(stored.shape)
