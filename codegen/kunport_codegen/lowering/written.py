"""Tensors that a source makes empty and writes in parts: where the parts make up the last axis, they are joined."""

from __future__ import annotations

from typing import Any

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import DType, Ref
from kunport_codegen.lowering.flow import Flow, Layout, Op


def join_written(flow: Flow) -> None:
    """``x = empty(..., a + b); x[..., :a] = first; x[..., a:] = second`` is ``cat((first, second))``."""
    producers = flow.producers()
    sizes = {node.id: node.shape for node in flow.graph.nodes}
    for op in flow.ops:
        _read_before(producers, sizes, op)
    for op in list(flow.ops):
        shape = sizes.get(op.results[0])
        if op.name != "setitem" or not shape:
            continue
        if _fills_row(op):
            _fill_row(flow, op)
            continue
        parts = _parts(producers, op, unwrap(shape[-1]), len(shape))
        if parts is not None and all(_fills(sizes.get(part.id), shape) for part in parts):
            op.name, op.args, op.kwargs = "cat", (parts,), {"dim": -1}
    flow.settle()


def _read_before(producers: dict[int, Op], sizes: dict[int, Any], op: Op) -> None:
    """A part that is read where other parts have been written is read of the tensor before that."""
    base = producers.get(op.args[0].id) if op.name == "getitem" and isinstance(op.args[0], Ref) else None
    while base is not None and base.name == "setitem" and (shape := sizes.get(base.results[0])):
        width = unwrap(shape[-1])
        mine, theirs = _place(op.args[1], width, len(shape)), _place(base.args[1], width, len(shape))
        if mine is None or theirs is None or (mine[0] < theirs[1] and theirs[0] < mine[1]):
            return
        op.args = (base.args[0], *op.args[1:])
        base = producers.get(base.args[0].id)


def _place(index: object, width: int, rank: int) -> tuple[int, int] | None:
    """Where an index of one part of the last axis, and all of the others, begins and ends; None for any other."""
    index = index if isinstance(index, tuple) else (index,)
    *before, last = index
    if not isinstance(last, slice) or unwrap(last.step) not in (None, 1):
        return None
    if before != [Ellipsis] and (len(index) != rank or any(item != slice(None, None, None) for item in before)):
        return None
    start, stop, _ = slice(unwrap(last.start), unwrap(last.stop)).indices(width)
    return start, stop


def _fills_row(op: Op) -> bool:
    """Whether one number is written to one row: ``x[3] = 0`` or ``x[3, :] = 0``."""
    _, index, value = op.args
    first, *rest = index if isinstance(index, tuple) else (index,)
    whole = slice(None, None, None)
    return type(unwrap(first)) is int and all(item == whole for item in rest) and not isinstance(value, Ref)


def _fill_row(flow: Flow, op: Op) -> None:
    """The same without writing: ``x.index_fill(0, row, value)``."""
    table, index, value = op.args
    row = flow.fresh(Layout(False, ()), DType("int64"))
    first = index[0] if isinstance(index, tuple) else index
    flow.shapes[row] = ()
    flow.ops.insert(flow.ops.index(op), Op("tensor", (first,), {"dtype": DType("int64")}, [row], op.owner, op.where))
    op.name, op.args = "index_fill", (table, 0, Ref(row), value)


def _fills(part: tuple[object, ...] | None, whole: tuple[object, ...]) -> bool:
    """Whether a part has the whole's sizes but for the last: it is not repeated to fit."""
    return part is not None and list(map(unwrap, part[:-1])) == list(map(unwrap, whole[:-1]))


def _parts(producers: dict[int, Op], last: Op, width: int, rank: int) -> list[Ref] | None:
    """What was written, in the order of places; None where that is not each place of the last axis once."""
    written: dict[int, tuple[int, Ref]] = {}
    op: Op | None = last
    while op is not None and op.name == "setitem":
        base, index, value = op.args
        place = _place(index, width, rank)
        if place is None or not isinstance(value, Ref) or place[0] in written:
            return None
        written[place[0]] = (place[1], value)
        op = producers.get(base.id)
    made = ("empty", "new_empty", "empty_like", "zeros", "new_zeros", "zeros_like", "ones", "new_ones", "ones_like")
    if op is None or op.name not in made:
        return None
    parts: list[Ref] = []
    reached = 0
    for start in sorted(written):
        if start != reached:
            return None
        reached, value = written[start]
        parts.append(value)
    return parts if reached == width else None
