"""The walk over a flow's operators that puts each on flattened tokens."""

from __future__ import annotations

from kunport_codegen.expression import Scalar, symbols_of, unwrap
from kunport_codegen.lowering.errors import RefusedError
from kunport_codegen.lowering.flow import POSITIONS, Flow, Layout, Op
from kunport_codegen.lowering.tokens import along, elementwise, layout
from kunport_codegen.lowering.tokens.axes import Axes
from kunport_codegen.lowering.tokens.context import Context, Rules
from kunport_codegen.lowering.tokens.merged import shapes_apart
from kunport_codegen.lowering.tokens.places import compute_lines, counts_tokens

RULES: Rules = Rules(elementwise.RULES | along.RULES | layout.RULES)


def flatten_tokens(flow: Flow) -> None:
    """Rewrite every operator to ``[tokens, ...]``, refusing by name what cannot be."""
    shapes, merged = shapes_apart(flow.graph)
    shapes.update(flow.shapes)
    context = Context(flow, shapes, {POSITIONS: Axes((), ())})
    flow.layouts[POSITIONS] = Layout(True, ())
    lost: set[int] = set()
    for op in flow.ops:
        if any(value in lost for value in op.inputs()):
            lost.update(op.results)
            continue
        try:
            if not merged.isdisjoint((*op.results, *op.inputs())) and not _takes_apart(op):
                raise RefusedError("it counts axes of a tensor that has tokens and heads in one")
            _flatten(context, op)
        except RefusedError as refused:
            flow.refuse(op, str(refused))
            lost.update(op.results)
    flow.ops = context.ops
    for value, axes in context.axes.items():
        flow.layouts.setdefault(value, axes.layout)
    if flow.output not in lost:
        flow.settle()


def _takes_apart(op: Op) -> bool:
    """Whether an operator does the same to an axis of tokens and heads in one and to three axes."""
    dim = op.kwargs.get("dim", op.args[1] if len(op.args) > 1 else None)
    reduces = op.name in ("sum", "mean", "amax", "amin") and _is_last(dim)
    return op.name in elementwise.RULES or op.name in ("reshape", "view") or reduces


def _is_last(dim: object) -> bool:
    dims = dim if isinstance(dim, list | tuple) else [dim]
    return all(unwrap(each) == -1 for each in dims)


def _flatten(context: Context, op: Op) -> None:
    if counts_tokens(context, op):
        return
    compute_lines(context, op)
    if op.name not in ("input", "item") and _is_constant(context, op):
        context.keep(op, [Axes(tuple(shape), (None,) * len(shape)) for shape in context.result_shapes(op)])
    elif op.name in RULES:
        RULES[op.name](context, op)
    else:
        raise RefusedError("no rule says what it does to single tokens")


def _is_constant(context: Context, op: Op) -> bool:
    """Whether it computes on parameters and constants alone, whose shapes do not change."""
    shapes = [context.shapes.get(result) for result in op.results]
    symbolic = any(isinstance(size, Scalar) and symbols_of(size.expr) for shape in shapes for size in shape or ())
    inputs = [context.axes.get(value) for value in op.inputs()]
    return not symbolic and None not in shapes and not any(axes is None or axes.layout.tokens for axes in inputs)
