"""Linear layers whose weight the source divides by a number: the result is divided instead."""

from __future__ import annotations

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import Ref
from kunport_codegen.lowering.flow import Flow, Op


def unscale_weights(flow: Flow) -> None:
    """``linear(x, weight / n)`` is ``linear(x, weight) / n``, exactly where n is a power of two."""
    producers = flow.producers()
    changed: list[Op] = []
    for op in flow.ops:
        changed.append(op)
        scaled = producers.get(op.args[1].id) if op.name == "linear" and isinstance(op.args[1], Ref) else None
        if scaled is None or scaled.name != "div" or (len(op.args) > 2 and op.args[2] is not None):
            continue
        weight, number = scaled.args
        source = producers.get(weight.id) if isinstance(weight, Ref) else None
        value = unwrap(number)
        if source is None or source.name != "parameter" or not isinstance(value, int) or value & (value - 1):
            continue
        product = flow.fresh(flow.layouts[op.results[0]], flow.dtypes.get(op.results[0]))
        changed.append(Op("div", (Ref(product), number), {}, op.results, op.owner, op.where))
        op.args, op.results = (op.args[0], weight, *op.args[2:]), [product]
    flow.ops = changed
    flow.settle()
