"""What each operator of the source becomes on flattened tokens, by family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kunport_codegen.expression import Scalar, unwrap
from kunport_codegen.graph import Arg, Ref
from kunport_codegen.lowering.errors import RefusedError
from kunport_codegen.lowering.flow import Flow, Layout, Op, Size
from kunport_codegen.lowering.tokens.axes import Axes, Role, axes_of

Rule = Callable[["Context", Op], None]
RULES: dict[str, Rule] = {}


@dataclass(slots=True)
class Context:
    """What the rules share: the source's shapes, the axes known so far, and the operators written so far."""

    flow: Flow
    shapes: dict[int, tuple[Size, ...] | None]
    axes: dict[int, Axes]
    ops: list[Op] = field(default_factory=list)

    def of(self, arg: Arg) -> Axes:
        """The axes of an operand; a scalar has none."""
        return self.axes[arg.id] if isinstance(arg, Ref) else Axes((), ())

    def result_shapes(self, op: Op) -> list[tuple[Size, ...]]:
        shapes = [self.shapes.get(result) for result in op.results]
        if any(shape is None for shape in shapes):
            raise RefusedError("its shape is not known")
        return [shape for shape in shapes if shape is not None]

    def keep(self, op: Op, axes: Sequence[Axes]) -> None:
        """Carry the operator over; its results have these axes."""
        self.axes.update(zip(op.results, axes, strict=True))
        self.ops.append(op)

    def replace(self, op: Op, value: int) -> None:
        """The operator changes nothing that is left: its result is ``value``."""
        shape = self.shapes.get(op.results[0])
        hints = self.axes[value].roles if value in self.axes else ()
        self.axes[op.results[0]] = axes_of(shape, hints)
        self.flow.aliases[op.results[0]] = value

    def view(self, op: Op, axes: Axes) -> None:
        """The operator only changes the layout to that of ``axes``; where it does not even do that it vanishes."""
        source = op.args[0]
        self.axes[op.results[0]] = axes
        if same_layout(self.of(source).layout, axes.layout):
            self.flow.aliases[op.results[0]] = source.id
        else:
            self.ops.append(Op("view", (source,), {}, op.results, op.owner, op.where))


def same_layout(first: Layout, second: Layout) -> bool:
    return first.tokens == second.tokens and plain(first.sizes) == plain(second.sizes)


def plain(sizes: Sequence[Size]) -> tuple[int, ...]:
    return tuple(unwrap(size) for size in sizes)


def rule(names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names.split(), function))
        return function

    return register


def argument(op: Op, position: int, name: str, default: Any = None) -> Any:
    return op.args[position] if len(op.args) > position else op.kwargs.get(name, default)


def single_shape(context: Context, op: Op) -> tuple[Size, ...]:
    return context.result_shapes(op)[0]


# Sources


@rule("input")
def source_input(context: Context, op: Op) -> None:
    context.keep(op, [axes_of(shape) for shape in context.result_shapes(op)])


# Recognised operators


@rule("Norm Rope")
def same_axes(context: Context, op: Op) -> None:
    context.keep(op, [context.of(op.args[0])])


@rule("Attention Experts")
def by_shape(context: Context, op: Op) -> None:
    context.keep(op, [axes_of(shape) for shape in context.result_shapes(op)])


# Element by element


@rule("contiguous clone detach dropout alias identity cpu cuda")
def unchanged(context: Context, op: Op) -> None:
    context.replace(op, op.args[0].id)


@rule("add sub mul div pow maximum minimum remainder fmod floor_divide eq ne lt le gt ge logical_and logical_or")
@rule("logical_not exp exp2 log log2 sqrt rsqrt sin cos tanh sigmoid erf reciprocal neg floor ceil round sign square abs")
@rule("relu relu6 silu gelu elu selu celu leaky_relu mish softplus softsign hardsigmoid hardswish hardtanh logsigmoid")
@rule("to type float half bfloat16 double long int bool type_as clamp clamp_min clamp_max where masked_fill isnan")
@rule("addcmul greater less")
def elementwise(context: Context, op: Op) -> None:
    """Operands are aligned at the end, so a batch or sequence axis must meet the same axis or none."""
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
        size for offset, size in zip(range(-len(axes.layout.sizes), 0), axes.layout.sizes, strict=True)
        if offset not in stray
    )
    value = context.flow.fresh(Layout(axes.layout.tokens, sizes), context.flow.dtypes.get(arg.id))
    context.ops.append(Op("view", (arg,), {}, [value], op.owner, op.where))
    return Ref(value)


# Along an axis


@rule("sum prod mean amax amin var std logsumexp softmax log_softmax cumsum cumprod argmax argmin norm vector_norm any all")
@rule("topk max min sort argsort")
def reduction(context: Context, op: Op) -> None:
    position = {"topk": 2, "norm": 2, "vector_norm": 2}.get(op.name, 1)
    named = "dim" in op.kwargs or len(op.args) <= position
    default = -1 if op.name in ("topk", "sort", "argsort") else None
    dim = op.kwargs.get("dim", default) if named else op.args[position]
    if dim is None:
        raise RefusedError("it reduces over all axes, tokens included")
    axes = context.of(op.args[0])
    flat = [axes.flat(item) for item in dim] if isinstance(dim, list | tuple) else axes.flat(dim)
    if named:
        op.kwargs = {**op.kwargs, "dim": flat}
    else:
        op.args = (*op.args[:position], flat, *op.args[position + 1 :])
    shapes = [context.shapes.get(result) for result in op.results]
    hints = axes.roles if op.kwargs.get("keepdim") else ()
    context.keep(op, [axes_of(shape, hints) if shape is not None else axes for shape in shapes])


@rule("item")
def item(context: Context, op: Op) -> None:
    context.keep(op, [axes_of(single_shape(context, op), context.of(op.args[0]).roles)])


@rule("split chunk split_with_sizes")
def split(context: Context, op: Op) -> None:
    """The results' axes are told by their ``item``; until then those of the whole stand for them."""
    axes = context.of(op.args[0])
    dim = axes.flat(argument(op, 2, "dim", 0))
    op.args, op.kwargs = (op.args[0], argument(op, 1, "chunks" if op.name == "chunk" else "split_size")), {"dim": dim}
    context.keep(op, [axes])


@rule("cat stack")
def join(context: Context, op: Op) -> None:
    result = axes_of(single_shape(context, op), context.of(op.args[0][0]).roles if op.name == "cat" else ())
    op.kwargs = {"dim": result.flat(argument(op, 1, "dim", 0))}
    op.args = (op.args[0],)
    context.keep(op, [result])


@rule("repeat_interleave")
def repeat_interleave(context: Context, op: Op) -> None:
    axes = context.of(op.args[0])
    op.kwargs = {"dim": axes.flat(argument(op, 2, "dim"))}
    op.args = op.args[:2]
    context.keep(op, [axes_of(single_shape(context, op), axes.roles)])


# Products


@rule("linear")
def linear(context: Context, op: Op) -> None:
    context.keep(op, [axes_of(single_shape(context, op), context.of(op.args[0]).roles)])


@rule("matmul")
def matmul(context: Context, op: Op) -> None:
    """Tokens times a matrix of parameters; a product of two tensors over tokens is attention or refused."""
    left, right = (context.of(arg) for arg in op.args[:2])
    if right.layout.tokens or len(right.shape) != 2 or left.roles[-1] is not None:
        raise RefusedError("it is a product across tokens that is not recognised as attention")
    context.keep(op, [axes_of(single_shape(context, op), left.roles)])


@rule("embedding")
def embedding(context: Context, op: Op) -> None:
    context.keep(op, [axes_of(single_shape(context, op), (*context.of(op.args[0]).roles, None))])


@rule("layer_norm rms_norm")
def torch_norm(context: Context, op: Op) -> None:
    context.keep(op, [context.of(op.args[0])])


# Layout


@rule("reshape view flatten unflatten view_as reshape_as squeeze")
def reshape(context: Context, op: Op) -> None:
    """Tokens lead on both sides, or neither side has them."""
    before, after = context.of(op.args[0]), axes_of(_precise(single_shape(context, op), op.args[1:]))
    if before.layout.tokens != after.layout.tokens or (
        before.layout.tokens and not same_layout(before.layout, after.layout) and not (_leading(before) and _leading(after))
    ):
        raise RefusedError("it mixes the axes over tokens with others")
    context.view(op, after)


def _leading(axes: Axes) -> bool:
    roles = [role for role, size in zip(axes.roles, axes.shape, strict=True) if role or unwrap(size) != 1]
    return None not in roles[: sum(role is not None for role in roles)]


def _precise(shape: tuple[Size, ...], args: tuple[Arg, ...]) -> tuple[Size, ...]:
    """The result's sizes, with the operator's own arguments where those say where a number comes from."""
    wanted = args[0] if len(args) == 1 and isinstance(args[0], list | tuple) else args
    if len(wanted) != len(shape):
        return shape
    pairs = zip(shape, wanted, strict=True)
    return tuple(
        arg if isinstance(arg, Scalar) and not isinstance(size, Scalar) and arg.value == size else size
        for size, arg in pairs
    )


@rule("unsqueeze")
def unsqueeze(context: Context, op: Op) -> None:
    before, shape = context.of(op.args[0]), single_shape(context, op)
    dim = unwrap(op.args[1]) % len(shape)
    context.view(op, axes_of(shape, _inserted(before.roles, dim)))


def _inserted(roles: tuple[Role, ...], dim: int) -> tuple[Role, ...]:
    """Roles after a new axis: one put before a sequence that has no batch stands for the batch."""
    batch = "s" in roles and "b" not in roles and dim <= roles.index("s")
    return (*roles[:dim], "b" if batch else None, *roles[dim:])


@rule("expand expand_as broadcast_to")
def expand(context: Context, op: Op) -> None:
    before = context.of(op.args[0])
    after = axes_of(single_shape(context, op), before.roles)
    if same_layout(before.layout, after.layout):
        context.replace(op, op.args[0].id)
        return
    if before.layout.tokens != after.layout.tokens:
        raise RefusedError("it repeats a value for each token")
    op.name, op.args, op.kwargs = "expand", (op.args[0], (-1, *after.layout.sizes)), {}
    context.keep(op, [after])


@rule("transpose permute t T mT movedim swapaxes")
def permute(context: Context, op: Op) -> None:
    axes, shape = context.of(op.args[0]), single_shape(context, op)
    order = _order(op, axes)
    roles = tuple(axes.roles[dim] for dim in order)
    result = Axes(shape, roles)
    rest = [dim for dim in order if axes.roles[dim] is None]
    if rest == sorted(rest):
        context.axes[op.results[0]] = result
        context.flow.aliases[op.results[0]] = op.args[0].id
        return
    flat = tuple(sorted(rest).index(dim) + axes.layout.tokens for dim in rest)
    op.name, op.args, op.kwargs = "permute", (op.args[0], (0, *flat) if axes.layout.tokens else flat), {}
    context.keep(op, [result])


def _order(op: Op, axes: Axes) -> list[int]:
    rank = len(axes.shape)
    order = list(range(rank))
    if op.name in ("transpose", "swapaxes"):
        first, second = (axes.normal(argument(op, place, name)) for place, name in ((1, "dim0"), (2, "dim1")))
        order[first], order[second] = order[second], order[first]
        return order
    if op.name == "permute":
        dims = argument(op, 1, "dims")
        return [axes.normal(dim) for dim in (dims if isinstance(dims, list | tuple) else op.args[1:])]
    if op.name in ("t", "T"):
        return order[::-1]
    if op.name == "mT":
        return [*order[:-2], rank - 1, rank - 2]
    source, target = axes.normal(op.args[1]), axes.normal(op.args[2])
    order.insert(target, order.pop(source))
    return order


@rule("getitem")
def getitem(context: Context, op: Op) -> None:
    """Only whole axes of tokens may be taken; the rest of the index stays."""
    axes, shape = context.of(op.args[0]), single_shape(context, op)
    index = op.args[1] if isinstance(op.args[1], tuple) else (op.args[1],)
    if any(isinstance(item, Ref | list) for item in index):
        raise RefusedError("it picks by a tensor")
    full = _without_ellipsis(index, len(axes.shape))
    kept: list[Any] = []
    roles: tuple[Role, ...] = ()
    dim = 0
    for item in full:
        if item is None:
            kept.append(None)
            rest = axes.roles[dim:]
            batch = "b" not in axes.roles and "s" in rest
            roles += ("b" if batch else None,)
            if batch:
                kept.pop()
            continue
        role = axes.roles[dim]
        if role is None:
            kept.append(item)
        elif not _is_whole(item):
            raise RefusedError("it takes some tokens and leaves others")
        if isinstance(item, slice):
            roles += (role,)
        dim += 1
    result = axes_of(shape, roles)
    if all(_is_whole(item) for item in kept):
        context.axes[op.results[0]] = result
        context.flow.aliases[op.results[0]] = op.args[0].id
    elif all(item is None or _is_whole(item) for item in kept):
        context.view(op, result)
    else:
        op.args = (op.args[0], (slice(None, None, None), *kept) if axes.layout.tokens else tuple(kept))
        context.keep(op, [result])


def _without_ellipsis(index: tuple[Any, ...], rank: int) -> list[Any]:
    taken = sum(item is not None and item is not Ellipsis for item in index)
    whole = [slice(None, None, None)] * (rank - taken)
    items: list[Any] = []
    for item in index:
        items.extend(whole if item is Ellipsis else [item])
    return items if Ellipsis in index else [*items, *whole]


def _is_whole(item: Any) -> bool:
    return isinstance(item, slice) and unwrap(item.start) in (None, 0) and item.stop is None and unwrap(item.step) in (None, 1)
