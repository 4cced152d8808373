"""Tensors that a source makes empty and writes in parts: where the parts make up the last axis, they are joined."""

from __future__ import annotations

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import DType, Ref
from kunport_codegen.lowering.flow import Flow, Layout, Op


def join_written(flow: Flow) -> None:
    """``x = empty(..., a + b); x[..., :a] = first; x[..., a:] = second`` is ``cat((first, second))``."""
    producers = flow.producers()
    sizes = {node.id: node.shape for node in flow.graph.nodes}
    for op in list(flow.ops):
        shape = sizes.get(op.results[0])
        if op.name != "setitem" or not shape:
            continue
        if _fills_row(op):
            _fill_row(flow, op)
            continue
        parts = _parts(producers, op, unwrap(shape[-1]))
        if parts is not None and all(_fills(sizes.get(part.id), shape) for part in parts):
            op.name, op.args, op.kwargs = "cat", (parts,), {"dim": -1}
    flow.settle()


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


def _parts(producers: dict[int, Op], last: Op, width: int) -> list[Ref] | None:
    """What was written, in the order of places; None where that is not each place of the last axis once."""
    written: dict[int, tuple[int, Ref]] = {}
    op: Op | None = last
    while op is not None and op.name == "setitem":
        base, index, value = op.args
        if not isinstance(index, tuple) or len(index) != 2 or index[0] is not Ellipsis or not isinstance(value, Ref):
            return None
        place = index[1]
        if not isinstance(place, slice) or unwrap(place.step) not in (None, 1):
            return None
        start, stop, _ = slice(unwrap(place.start), unwrap(place.stop)).indices(width)
        if start in written:
            return None
        written[start] = (stop, value)
        op = producers.get(base.id)
    if op is None or op.name not in ("empty", "new_empty", "empty_like", "zeros", "new_zeros", "zeros_like"):
        return None
    parts: list[Ref] = []
    reached = 0
    for start in sorted(written):
        if start != reached:
            return None
        reached, value = written[start]
        parts.append(value)
    return parts if reached == width else None
