"""Rules for what works along one axis: reductions, joins, splits and products."""

from __future__ import annotations

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import Ref
from kunport_codegen.lowering.errors import RefusedError
from kunport_codegen.lowering.flow import Layout, Op, Size
from kunport_codegen.lowering.tokens.axes import Axes, axes_of
from kunport_codegen.lowering.tokens.context import Context, Rules, argument, single_shape

RULES = Rules()


@RULES.of("sum prod mean amax amin var std logsumexp softmax log_softmax cumsum cumprod argmax argmin norm vector_norm")
@RULES.of("topk max min sort argsort any all")
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


@RULES.of("gather scatter scatter_add")
def at_places(context: Context, op: Op) -> None:
    """Elements of each token by their places in it."""
    if not op.kwargs.keys() <= {"dim", "index", "src", "value"}:
        raise RefusedError("it does more than put numbers in places")
    axes, index = context.of(op.args[0]), argument(op, 2, "index")
    rest = [op.kwargs[name] for name in ("src", "value") if name in op.kwargs]
    given = [arg for arg in (index, *op.args[3:], *rest) if isinstance(arg, Ref)]
    if any(_over_tokens(context.of(each)) != _over_tokens(axes) for each in given):
        raise RefusedError("its places are those of other tokens")
    op.args = (op.args[0], axes.flat(argument(op, 1, "dim")), index, *op.args[3:], *rest)
    op.kwargs = {}
    context.keep(op, [axes_of(single_shape(context, op), axes.roles)])


def _over_tokens(axes: Axes) -> list[Size | None]:
    return [None if role is None else size for size, role in zip(axes.shape, axes.roles, strict=True)]


@RULES.of("item")
def item(context: Context, op: Op) -> None:
    context.keep(op, [axes_of(single_shape(context, op), context.of(op.args[0]).roles)])


@RULES.of("split chunk split_with_sizes")
def split(context: Context, op: Op) -> None:
    """The results' axes are told by their ``item``; until then those of the whole stand for them."""
    axes = context.of(op.args[0])
    dim = axes.flat(argument(op, 2, "dim", 0))
    op.args, op.kwargs = (op.args[0], argument(op, 1, "chunks" if op.name == "chunk" else "split_size")), {"dim": dim}
    context.keep(op, [axes])


@RULES.of("unbind")
def unbind(context: Context, op: Op) -> None:
    """The results have all axes but the one that is taken apart."""
    axes, dim = context.of(op.args[0]), argument(op, 1, "dim", 0)
    at = axes.normal(dim)
    op.args, op.kwargs = op.args[:1], {"dim": axes.flat(dim)}
    context.keep(op, [Axes(axes.shape[:at] + axes.shape[at + 1 :], axes.roles[:at] + axes.roles[at + 1 :])])


@RULES.of("cat stack")
def join(context: Context, op: Op) -> None:
    result = axes_of(single_shape(context, op), context.of(op.args[0][0]).roles if op.name == "cat" else ())
    op.kwargs = {"dim": result.flat(argument(op, 1, "dim", 0))}
    op.args = (op.args[0],)
    context.keep(op, [result])


@RULES.of("repeat")
def repeat(context: Context, op: Op) -> None:
    """Copies of each token's numbers behind one another, along axes that it has or that are put before its own."""
    axes, shape = context.of(op.args[0]), single_shape(context, op)
    times = op.args[1] if len(op.args) == 2 and isinstance(op.args[1], list | tuple) else op.args[1:]
    added = len(times) - len(axes.shape)
    roles = (*(None,) * added, *axes.roles)
    if op.kwargs or any(role is not None and unwrap(number) != 1 for role, number in zip(roles, times, strict=True)):
        raise RefusedError("it repeats tokens")
    source = op.args[0]
    if added:
        whole = Layout(axes.layout.tokens, ((1,) * added + axes.layout.sizes))
        source = Ref(context.flow.fresh(whole, context.flow.dtypes.get(source.id)))
        context.ops.append(Op("view", op.args[:1], {}, [source.id], op.owner, op.where))
    copies = tuple(number for role, number in zip(roles, times, strict=True) if role is None)
    op.args = (source, (1, *copies) if axes.layout.tokens else copies)
    context.keep(op, [Axes(shape, roles)])


@RULES.of("repeat_interleave")
def repeat_interleave(context: Context, op: Op) -> None:
    axes = context.of(op.args[0])
    op.kwargs = {"dim": axes.flat(argument(op, 2, "dim"))}
    op.args = op.args[:2]
    context.keep(op, [axes_of(single_shape(context, op), axes.roles)])


@RULES.of("linear")
def linear(context: Context, op: Op) -> None:
    context.keep(op, [axes_of(single_shape(context, op), context.of(op.args[0]).roles)])


@RULES.of("matmul")
def matmul(context: Context, op: Op) -> None:
    """Tokens times a matrix of parameters; a product of two tensors over tokens is attention or refused."""
    left, right = (context.of(arg) for arg in op.args[:2])
    if left.layout.tokens and right.layout.tokens and _matrices_of_tokens(left, right):
        context.keep(op, [axes_of(single_shape(context, op), left.roles)])
        return
    if not left.layout.tokens and len(left.shape) == 2 and right.roles == ("b", None, "s"):
        op.name, op.args = "linear", (op.args[1], op.args[0], None)  # tokens lie in columns
        context.keep(op, [axes_of(single_shape(context, op))])
        return
    if right.layout.tokens or len(right.shape) != 2 or left.roles[-1] is not None:
        raise RefusedError("it is a product across tokens that is not recognised as attention")
    context.keep(op, [axes_of(single_shape(context, op), left.roles)])


def _matrices_of_tokens(left: Axes, right: Axes) -> bool:
    """Whether two tensors hold matrices of each token, which are multiplied one by one."""
    apart = all(axes.roles[-2:] == (None, None) and axes.roles[:-2] == left.roles[:-2] for axes in (left, right))
    return apart and len(left.shape) == len(right.shape) and None not in left.roles[:-2]


@RULES.of("bmm")
def batched(context: Context, op: Op) -> None:
    """A matrix of parameters for each head, where tokens lie behind the heads."""
    left, right = (context.of(arg) for arg in op.args)
    if left.roles != (None, "t", None) or right.layout.tokens or op.kwargs:
        raise RefusedError("it is a product across tokens that is not recognised as attention")
    op.name, op.args = "einsum", ("thd,hde->the", *op.args)
    context.keep(op, [axes_of(single_shape(context, op))])


@RULES.of("baddbmm")
def batched_and_added(context: Context, op: Op) -> None:
    """The same with a bias for each head."""
    added, left, right = (context.of(arg) for arg in op.args)
    if left.roles != (None, "t", None) or right.layout.tokens or added.layout.tokens or op.kwargs:
        raise RefusedError("it is a product across tokens that is not recognised as attention")
    if unwrap(added.shape[1]) != 1:
        raise RefusedError("it adds something else than a bias")
    bias = context.flow.fresh(Layout(False, (added.shape[0], added.shape[2])), context.flow.dtypes.get(op.args[0].id))
    product = context.flow.fresh(left.layout, context.flow.dtypes.get(op.args[1].id))
    context.ops += [
        Op("squeeze", (op.args[0], 1), {}, [bias], op.owner, op.where),
        Op("einsum", ("thd,hde->the", op.args[1], op.args[2]), {}, [product], op.owner, op.where),
    ]
    op.name, op.args = "add", (Ref(product), Ref(bias))
    context.keep(op, [axes_of(single_shape(context, op))])


@RULES.of("embedding")
def embedding(context: Context, op: Op) -> None:
    context.keep(op, [axes_of(single_shape(context, op), (*context.of(op.args[0]).roles, None))])


@RULES.of("one_hot")
def one_hot(context: Context, op: Op) -> None:
    context.keep(op, [axes_of(single_shape(context, op), (*context.of(op.args[0]).roles, None))])


@RULES.of("layer_norm rms_norm")
def torch_norm(context: Context, op: Op) -> None:
    context.keep(op, [context.of(op.args[0])])
