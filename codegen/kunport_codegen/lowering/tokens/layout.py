"""Rules for what changes the layout only: reshapes, permutations and indices."""

from __future__ import annotations

from math import prod
from typing import Any

from kunport_codegen.expression import Expr, Scalar, apply, unwrap
from kunport_codegen.graph import Arg, Ref
from kunport_codegen.lowering.errors import RefusedError
from kunport_codegen.lowering.flow import Op, Size
from kunport_codegen.lowering.tokens.axes import Axes, Role, axes_of
from kunport_codegen.lowering.tokens.context import Context, Rules, argument, plain, same_layout, single_shape
from kunport_codegen.recognition.states.tokens import counts_tokens

RULES = Rules()


@RULES.of("reshape view flatten unflatten view_as reshape_as squeeze")
def reshape(context: Context, op: Op) -> None:
    """Tokens lead on both sides, or neither side has them."""
    before = context.of(op.args[0])
    after = axes_of(_merged(before, _precise(single_shape(context, op), op.args[1:])))
    if before.layout.tokens != after.layout.tokens or (
        before.layout.tokens
        and not same_layout(before.layout, after.layout)
        and not (_leading(before) and _leading(after))
        and _segments(before) != _segments(after)
    ):
        raise RefusedError("it mixes the axes over tokens with others")
    context.view(op, after)


def _merged(before: Axes, shape: tuple[Size, ...]) -> tuple[Size, ...]:
    """The shape with a size said as the sequence or as all tokens, where the others leave nothing else for it to be.

    ``x.reshape(-1, 128)`` and ``x.reshape(batch, -1, 4, 32)`` have a size that no one wrote down, in terms of its own.
    """
    tokens = [size for size, role in zip(before.shape, before.roles, strict=True) if role in ("b", "s")]
    if len(tokens) != 2 or len(shape) < 1:
        return shape
    batch, sequence = tokens
    elements = prod(plain(before.layout.sizes))
    if prod(plain(shape[1:])) == elements:
        whole = apply("mul", batch, sequence)
        return (whole, *shape[1:]) if isinstance(whole, Scalar) and whole.value == unwrap(shape[0]) else shape
    is_batch = isinstance(batch, Scalar) and shape[0] == batch
    if is_batch and len(shape) > 1 and unwrap(shape[1]) == unwrap(sequence) and prod(plain(shape[2:])) == elements:
        return (batch, sequence, *shape[2:])
    return shape


def _leading(axes: Axes) -> bool:
    roles = [role for role, size in zip(axes.roles, axes.shape, strict=True) if role or unwrap(size) != 1]
    return None not in roles[: sum(role is not None for role in roles)]


def _segments(axes: Axes) -> list[Role | int]:
    """The axes over tokens in order, and before, between and after them how many elements the others hold."""
    found: list[Role | int] = [1]
    for role, size in zip(axes.roles, axes.shape, strict=True):
        if role is not None:
            found += [role, 1]
        else:
            found[-1] *= unwrap(size)
    return found


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


@RULES.of("unsqueeze")
def unsqueeze(context: Context, op: Op) -> None:
    before, shape = context.of(op.args[0]), single_shape(context, op)
    dim = unwrap(op.args[1]) % len(shape)
    context.view(op, axes_of(shape, _inserted(before.roles, dim)))


def _inserted(roles: tuple[Role, ...], dim: int) -> tuple[Role, ...]:
    """Roles after a new axis: one put before a sequence that has no batch stands for the batch."""
    batch = "s" in roles and "b" not in roles and dim <= roles.index("s")
    return (*roles[:dim], "b" if batch else None, *roles[dim:])


@RULES.of("expand expand_as broadcast_to")
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


@RULES.of("transpose permute t T mT movedim swapaxes")
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


@RULES.of("getitem")
def getitem(context: Context, op: Op) -> None:
    """Only whole axes of tokens may be taken; the rest of the index stays."""
    axes, shape = context.of(op.args[0]), single_shape(context, op)
    index = tuple(map(_one, op.args[1] if isinstance(op.args[1], tuple) else (op.args[1],)))
    if any(isinstance(item, Ref | list) for item in index):
        _pick(context, op, index)
        return
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
        elif not _is_whole(item) and not (role == "s" and _takes_all(item)):
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


def _one(item: Any) -> Any:
    """A list of one number keeps its axis, as a slice does."""
    if not (isinstance(item, list) and len(item) == 1 and type(number := unwrap(item[0])) is int):
        return item
    return slice(number, number + 1 if number != -1 else None, None)


def _pick(context: Context, op: Op, index: tuple[Any, ...]) -> None:
    """Rows of a table that is the same for all tokens, by a number of each token."""
    rows, table = index[0], context.of(op.args[0])
    if not isinstance(rows, Ref) or not all(_is_whole(item) for item in index[1:]) or len(table.shape) != 2:
        raise RefusedError("it picks by a tensor")
    _look_up(context, op, rows, op.args[0])


@RULES.of("index_select")
def index_select(context: Context, op: Op) -> None:
    table, dim, rows = op.args
    if unwrap(dim) != 0 or len(context.of(table).shape) != 2:
        raise RefusedError("it picks by a tensor along another axis than the first")
    _look_up(context, op, rows, table)


def _look_up(context: Context, op: Op, rows: Ref, table: Ref) -> None:
    if context.of(table).layout.tokens:
        raise RefusedError("it takes some tokens and leaves others")
    op.name, op.args, op.kwargs = "embedding", (rows, table), {}
    context.keep(op, [axes_of(single_shape(context, op), (*context.of(rows).roles, None))])


def _without_ellipsis(index: tuple[Any, ...], rank: int) -> list[Any]:
    taken = sum(item is not None and item is not Ellipsis for item in index)
    whole = [slice(None, None, None)] * (rank - taken)
    items: list[Any] = []
    for item in index:
        items.extend(whole if item is Ellipsis else [item])
    return items if Ellipsis in index else [*items, *whole]


def _is_whole(item: Any) -> bool:
    return (
        isinstance(item, slice)
        and unwrap(item.start) in (None, 0)
        and item.stop is None
        and unwrap(item.step) in (None, 1)
    )


def _takes_all(item: Any) -> bool:
    """Whether an index takes the first tokens or the last, and as many as there are."""
    if not isinstance(item, slice) or unwrap(item.step) not in (None, 1):
        return False
    if item.stop is None:
        return isinstance(item.start, Scalar) and counts_tokens(Expr("neg", (item.start.expr,)))
    return unwrap(item.start) in (None, 0) and isinstance(item.stop, Scalar) and counts_tokens(item.stop.expr)
