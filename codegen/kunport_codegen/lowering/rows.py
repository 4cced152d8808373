"""Which rows of a linear layer's weight become which part of its output, by following the dataflow on indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import Ref
from kunport_codegen.lowering.flow import Flow, Op
from kunport_codegen.lowering.tokens.context import plain

Rows = npt.NDArray[np.int64]

_MOVES = frozenset(["view", "permute", "getitem", "item", "split", "chunk", "split_with_sizes"])


@dataclass(slots=True)
class Part:
    """A value that consists of rows of a linear layer's output: the layer, the value and the rows in its layout."""

    linear: Op
    value: int
    rows: Rows


def trace(flow: Flow, producers: dict[int, Op], value: int) -> Part | None:
    """The linear layer that a value comes from through operators of one tensor operand, and where its rows went.

    The part is the last value on the way that only moved rows about; norms, rotations and arithmetic may follow it.
    """
    path: list[Op] = []
    current = value
    while True:
        op = producers.get(current)
        if op is None:
            return None
        if op.name == "linear":
            break
        tensors = [arg for arg in op.args if isinstance(arg, Ref)]
        if op.name not in _MOVES and (len(tensors) != 1 or op.name in ("Attention", "Experts", "call", "embedding")):
            return None
        path.append(op)
        current = tensors[0].id
    out = flow.layouts[current].sizes[-1]
    rows: Any = np.arange(unwrap(out))
    part = Part(op, current, rows)
    for step in reversed(path):
        if step.name not in _MOVES:
            break
        rows = _move(flow, step, rows)
        if not isinstance(rows, list):
            part = Part(op, step.results[0], rows)
    return part


def _move(flow: Flow, op: Op, rows: Any) -> Any:
    """The rows after one move; the token axis, which comes first in the operator's arguments, is not in ``rows``."""
    if op.name == "view":
        return rows.reshape(plain(flow.layouts[op.results[0]].sizes))
    if op.name == "permute":
        return rows.transpose([dim - 1 for dim in op.args[1][1:]])
    if op.name == "getitem":
        return rows[tuple(_plain_index(item) for item in op.args[1][1:])]
    if op.name == "item":
        return rows[unwrap(op.args[1])]
    dim = op.kwargs["dim"]
    if op.name == "chunk":
        each = -(-rows.shape[dim] // unwrap(op.args[1]))
        bounds = range(each, rows.shape[dim], each)
    elif isinstance(op.args[1], list | tuple):
        bounds = np.cumsum([unwrap(size) for size in op.args[1]])[:-1].tolist()
    else:
        bounds = range(unwrap(op.args[1]), rows.shape[dim], unwrap(op.args[1]))
    return list(np.split(rows, list(bounds), axis=dim))


def _plain_index(item: Any) -> Any:
    if isinstance(item, slice):
        return slice(unwrap(item.start), unwrap(item.stop), unwrap(item.step))
    return unwrap(item)


@dataclass(frozen=True, slots=True)
class Grouping:
    """The rows of a fused weight: ``groups`` groups, in each ``sizes[i]`` rows of part ``order[i]``."""

    groups: int
    sizes: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def in_order(self) -> bool:
        """Whether the parts already lie one after another."""
        return self.groups == 1 and self.order == tuple(range(len(self.order)))


def grouping(parts: Sequence[Rows]) -> Grouping | None:
    """How parts that make up a whole weight are interleaved in it, with the fewest groups; None if in no such way."""
    flat = [part.reshape(-1) for part in parts]
    total = sum(len(part) for part in flat)
    common = int(np.gcd.reduce([len(part) for part in flat]))
    for groups in (n for n in range(1, common + 1) if common % n == 0):
        order = tuple(sorted(range(len(flat)), key=lambda index: int(flat[index][0])))
        sizes = tuple(len(flat[index]) // groups for index in order)
        rows = np.arange(total).reshape(groups, -1)
        pieces = np.split(rows, np.cumsum(sizes)[:-1], axis=1)
        if all(np.array_equal(pieces[place].reshape(-1), flat[index]) for place, index in enumerate(order)):
            return Grouping(groups, sizes, order)
    return None
