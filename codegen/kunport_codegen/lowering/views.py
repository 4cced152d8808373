"""Layout changes: rotation and attention work on ``[tokens, heads * head_dim]``, and pairs of views cancel."""

from __future__ import annotations

from dataclasses import replace

from kunport_codegen.expression import Expr, Scalar, apply, unwrap
from kunport_codegen.facts import Attention, Number
from kunport_codegen.graph import Ref
from kunport_codegen.lowering.flow import Flow, Layout, Op, Size
from kunport_codegen.lowering.tokens.context import same_layout

# Operators that give the same numbers on any layout of their one tensor.
ELEMENTWISE = {
    *("mul", "div", "add", "sub", "neg", "exp", "tanh", "sigmoid", "silu", "gelu", "relu", "softplus", "to", "float"),
    *("clamp", "abs", "square", "sqrt", "rsqrt", "reciprocal"),
}


def flatten_heads(flow: Flow) -> None:
    """Put a view before and after each rotation and attention, so that each sees its heads side by side."""
    ops: list[Op] = []
    for op in flow.ops:
        if op.name not in ("Rope", "Attention"):
            ops.append(op)
            continue
        if op.name == "Attention":
            op.fact = _sized(flow, op)
            _pad_value(flow, ops, op)
        else:
            op.kwargs = {"head_size": flow.layouts[op.results[0]].sizes[-1]}
        op.args = tuple(Ref(_view(flow, ops, op, arg.id)) for arg in op.args)
        result, cut = op.results[0], []
        layout = flow.layouts[result]
        if op.name == "Attention" and unwrap(layout.sizes[-1]) < unwrap(op.fact.value_dim):
            # The result of padded values: what belongs to the padding is zero.
            layout = Layout(layout.tokens, (*layout.sizes[:-1], op.fact.value_dim))
            wide = flow.fresh(layout, flow.dtypes.get(result))
            index = (*[slice(None, None, None)] * len(layout.sizes), slice(None, flow.layouts[result].sizes[-1], None))
            cut = [Op("getitem", (Ref(wide), index), {}, [result], op.owner, op.where)]
            result = wide
        flat = flow.fresh(_side_by_side(layout), flow.dtypes.get(result))
        op.results = [flat]
        ops += [op, Op("view", (Ref(flat),), {}, [result], op.owner, op.where), *cut]
    flow.ops = ops
    cancel_views(flow)


def _pad_value(flow: Flow, ops: list[Op], op: Op) -> None:
    """Values shorter than keys get zeros behind them: the cache of the engine has one size for both."""
    fact: Attention = op.fact
    value = op.args[2].id
    missing = apply("sub", fact.head_dim, fact.value_dim)
    if unwrap(missing) <= 0:
        return
    layout = flow.layouts[value]
    size: Size = fact.head_dim  # type: ignore[assignment]
    padded = flow.fresh(Layout(layout.tokens, (*layout.sizes[:-1], size)), flow.dtypes.get(value))
    ops.append(Op("pad", (Ref(value), (0, missing)), {}, [padded], op.owner, op.where))
    op.args = (*op.args[:2], Ref(padded))
    op.fact = replace(fact, value_dim=fact.head_dim)


def _sized(flow: Flow, op: Op) -> Attention:
    """The fact with sizes as the operands have them, where those are said more simply: a rotation changes no shape."""
    fact: Attention = op.fact
    query, key, value = (flow.layouts[arg.id].sizes for arg in op.args)
    return replace(
        fact,
        heads=_simpler(fact.heads, query[0]),
        kv_heads=_simpler(fact.kv_heads, key[0]),
        head_dim=min((_simpler(fact.head_dim, size) for size in (query[-1], key[-1])), key=lambda size: len(str(size))),
        value_dim=_simpler(fact.value_dim, value[-1]),
    )


def _simpler(first: Number, second: Size) -> Number:
    """The shorter of two ways to say one number; one that names the configuration before a bare number."""
    same = unwrap(first) == unwrap(second)
    named = [_reduced(size) for size in (first, second) if isinstance(size, Scalar)]
    return min(named, key=lambda size: len(str(size.expr))) if same and named else first


def _reduced(size: Scalar) -> Scalar:
    """``hidden // (hidden // heads)``, which a view with ``-1`` gives, is ``heads``: these divide the hidden size."""
    expr = size.expr
    if expr.op == "floordiv" and isinstance(expr.args[1], Expr) and expr.args[1].op == "floordiv":
        whole, (again, parts) = expr.args[0], expr.args[1].args
        if whole == again and isinstance(parts, Expr) and parts.op == "field":
            return Scalar(size.value, parts)
    return size


def _view(flow: Flow, ops: list[Op], op: Op, value: int) -> int:
    result = flow.fresh(_side_by_side(flow.layouts[value]), flow.dtypes.get(value))
    ops.append(Op("view", (Ref(value),), {}, [result], op.owner, op.where))
    return result


def _side_by_side(layout: Layout) -> Layout:
    size: Size = 1
    for factor in layout.sizes:
        size = factor if unwrap(size) == 1 else apply("mul", size, factor)  # type: ignore[assignment]
    return Layout(layout.tokens, (size,))


def cancel_views(flow: Flow) -> None:
    """A view of a view is one view, and one that changes nothing is none.

    An operator that works element by element moves before a view of its operand, so that the views around it meet.
    """
    producers: dict[int, Op] = {}
    for op in flow.ops:
        op.args = tuple(Ref(flow.resolve(arg.id)) if isinstance(arg, Ref) else arg for arg in op.args)
        if op.name == "view":
            source = producers.get(op.args[0].id)
            if source is not None and source.name == "view":
                op.args = source.args
            if same_layout(flow.layouts[op.args[0].id], flow.layouts[op.results[0]]):
                flow.aliases[op.results[0]] = op.args[0].id
        producers.update((result, op) for result in op.results)
    flow.settle()
