"""Rules for what works element by element, for sources and for recognised operators."""

from __future__ import annotations

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import Ref
from kunport_codegen.lowering.errors import RefusedError
from kunport_codegen.lowering.flow import Layout, Op
from kunport_codegen.lowering.tokens.axes import Axes, Role, axes_of
from kunport_codegen.lowering.tokens.context import Context, Rules, single_shape

RULES = Rules()


@RULES.of("input")
def source_input(context: Context, op: Op) -> None:
    context.keep(op, [axes_of(shape) for shape in context.result_shapes(op)])


@RULES.of("Norm Rope")
def same_axes(context: Context, op: Op) -> None:
    context.keep(op, [context.of(op.args[0])])


@RULES.of("Attention Experts StateOperator")
def by_shape(context: Context, op: Op) -> None:
    context.keep(op, [axes_of(shape) for shape in context.result_shapes(op)])


@RULES.of("contiguous clone detach dropout alias identity cpu cuda")
def unchanged(context: Context, op: Op) -> None:
    context.replace(op, op.args[0].id)


@RULES.of("add sub mul div pow maximum minimum remainder fmod floor_divide eq ne lt le gt ge logical_and logical_or")
@RULES.of("logical_not exp exp2 log log2 sqrt rsqrt sin cos tanh sigmoid erf reciprocal neg floor ceil round sign")
@RULES.of("square abs relu relu6 silu gelu elu selu celu leaky_relu mish softplus softsign hardsigmoid hardswish")
@RULES.of("hardtanh logsigmoid to type float half bfloat16 double long int bool type_as clamp clamp_min clamp_max")
@RULES.of(
    "where masked_fill isnan addcmul expm1 log1p log10 erfc atan sinh cosh trunc fmin fmax nan_to_num logical_xor"
)
@RULES.of("bitwise_not bitwise_and bitwise_or zeros_like ones_like full_like")
def elementwise(context: Context, op: Op) -> None:
    """Operands are aligned at the end, so a batch or sequence axis must meet the same axis or none."""
    if op.name in ("add", "sub") and len(op.args) == 2 and isinstance(op.args[0], Ref) and unwrap(op.args[1]) == 0:
        unchanged(context, op)
        return
    shape = single_shape(context, op)
    operands = [arg for arg in [*op.args, *op.kwargs.values()] if isinstance(arg, Ref)]
    hints: list[Role] = [None] * len(shape)
    for operand in operands:
        for offset, role in enumerate(reversed(context.of(operand).roles), 1):
            hints[-offset] = hints[-offset] or ("b" if role == "b" else None)
    result = axes_of(shape, hints)
    args = tuple(_aligned(context, op, arg, result) if isinstance(arg, Ref) else arg for arg in op.args)
    kwargs = {
        key: _aligned(context, op, arg, result) if isinstance(arg, Ref) else arg for key, arg in op.kwargs.items()
    }
    op.args, op.kwargs = args, kwargs
    context.keep(op, [result])


def _aligned(context: Context, op: Op, arg: Ref, result: Axes) -> Ref:
    """The operand so that what is left of it still meets the right axes of the result."""
    axes = context.of(arg)
    stray = []
    for offset in range(1, len(axes.shape) + 1):
        role, wanted = axes.roles[-offset], result.roles[-offset]
        if role is not None and role != wanted:
            raise RefusedError("it combines axes over tokens with others")
        if wanted is not None and role is None:
            if unwrap(axes.shape[-offset]) != 1:
                raise RefusedError("it combines axes over tokens with others")
            stray.append(-sum(known is None for known in axes.roles[len(axes.roles) - offset :]))
    if not stray:
        return arg
    sizes = tuple(
        size
        for offset, size in zip(range(-len(axes.layout.sizes), 0), axes.layout.sizes, strict=True)
        if offset not in stray
    )
    value = context.flow.fresh(Layout(axes.layout.tokens, sizes), context.flow.dtypes.get(arg.id))
    context.ops.append(Op("view", (arg,), {}, [value], op.owner, op.where))
    return Ref(value)
