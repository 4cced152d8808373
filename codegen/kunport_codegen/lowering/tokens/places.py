"""Whole numbers that follow from a token's place in its sequence: ``step * place + start``.

Sources count tokens in many ways: ``arange``, a running sum of ones, a table of all numbers cut to the length. In the
engine the places are given, so what only counts is followed until something else reads it.
"""

from __future__ import annotations

from math import prod
from typing import Any

from kunport_codegen.expression import Scalar, apply, symbols_of, unwrap
from kunport_codegen.graph import Arg, DType, Ref
from kunport_codegen.lowering.errors import RefusedError
from kunport_codegen.lowering.flow import POSITIONS, Layout, Op, Size, substitute
from kunport_codegen.lowering.tokens.axes import Role, axes_of, is_sequence
from kunport_codegen.lowering.tokens.context import Context, Line, argument, plain

_CASTS = frozenset(("to", "long", "int", "float", "contiguous", "clone"))
_MOVES = frozenset(("unsqueeze", "expand", "reshape", "view"))
_PLACE = Line(1, 0)


def counts_tokens(context: Context, op: Op) -> bool:
    """Whether the operator only counts tokens. Its result is then the places themselves, or known as a `Line`."""
    line = _line(context, op)
    if line is None:
        return False
    shape = context.shapes.get(op.results[0]) or ()
    # An axis of one before the sequence stands for the batch.
    hints: tuple[Role, ...] = tuple("b" if is_sequence(size) else None for size in shape[1:])
    context.axes[op.results[0]] = axes_of(shape, (*hints, None))
    once = prod(plain(context.axes[op.results[0]].layout.sizes)) == 1
    if line == _PLACE and once and context.flow.dtypes.get(op.results[0]) == DType("int64"):
        context.flow.aliases[op.results[0]] = POSITIONS
    else:
        context.lines[op.results[0]] = line
    return True


def compute_lines(context: Context, op: Op) -> None:
    """Compute the numbers that an operator reads which does something else with them."""
    for value in dict.fromkeys(op.inputs()):
        if value not in context.lines:
            continue
        computed = _computed(context, op, value, context.lines[value])
        context.axes[computed] = context.axes[value]
        numbers = {value: computed}
        op.args = substitute(op.args, lambda read, numbers=numbers: numbers.get(read, read))
        op.kwargs = substitute(op.kwargs, lambda read, numbers=numbers: numbers.get(read, read))


def _computed(context: Context, reader: Op, value: int, line: Line) -> int:
    if line.step == 0:
        raise RefusedError("it has one number for all tokens")
    dtype, sizes = context.flow.dtypes.get(value), context.axes[value].layout.sizes
    steps: list[tuple[str, tuple[Any, ...]]] = [("mul", (line.step,))] if line.step != 1 else []
    steps += [("add", (line.start,))] if line.start != 0 else []
    steps += [("to", (dtype,))] if dtype not in (None, DType("int64")) else []
    steps += [("view", ())] if sizes else []
    steps += [("expand", ((-1, *sizes),))] if prod(plain(sizes)) != 1 else []
    shapes = {"view": (1,) * len(sizes), "expand": sizes}
    current = POSITIONS
    for name, rest in steps:
        result = context.flow.fresh(Layout(True, shapes.get(name, ())), dtype)
        context.ops.append(Op(name, (Ref(current), *rest), {}, [result], reader.owner, reader.where))
        current = result
    return current


def _line(context: Context, op: Op) -> Line | None:
    """The line that an operator's result is, where it only counts."""
    source = op.args[0] if op.args else None
    if op.name == "arange":
        return _counted(context, op)
    if op.name == "ones":
        shape = context.shapes.get(op.results[0])
        return Line(0, 1) if shape and is_sequence(shape[-1]) else None
    if isinstance(source, Ref) and source.id in context.counts:
        return _cut(context, op)
    known = context.lines.get(source.id) if isinstance(source, Ref) else None
    if op.name in _MOVES:  # of the places themselves, too
        known = _operand(context, source)
    if known is not None and op.name == "cumsum" and known.step == 0 and _sums_tokens(context, op):
        return Line(known.start, known.start)
    if known is not None and (op.name in _CASTS or op.name in _MOVES or (op.name == "getitem" and _takes_all(op))):
        return known
    return _sum(context, op)


def _counted(context: Context, op: Op) -> Line | None:
    """``arange(sequence)``; one of all numbers up to a fixed length counts once it is cut to the tokens'."""
    bounds = [op.kwargs.get("start", 0), op.args[0]] if len(op.args) == 1 else list(op.args[:2])
    step = op.args[2] if len(op.args) > 2 else op.kwargs.get("step", 1)
    if unwrap(bounds[0]) != 0 or unwrap(step) != 1:
        return None
    last = bounds[-1]
    if is_sequence(last):
        return _PLACE
    if not (isinstance(last, Scalar) and symbols_of(last.expr)):
        context.counts.add(op.results[0])
    return None


def _cut(context: Context, op: Op) -> Line | None:
    if op.name in _MOVES or op.name in _CASTS:
        context.counts.add(op.results[0])
    if op.name != "getitem":
        return None
    cuts = [item for item in _items(op) if item is not None and not _is_all(item)]
    first = cuts[0] if len(cuts) == 1 else None
    if isinstance(first, slice) and unwrap(first.start) in (None, 0) and unwrap(first.step) in (None, 1):
        return _PLACE if is_sequence(first.stop) else None
    return None


def _items(op: Op) -> tuple[Any, ...]:
    return op.args[1] if isinstance(op.args[1], tuple) else (op.args[1],)


def _takes_all(op: Op) -> bool:
    return all(item is None or _is_all(item) for item in _items(op))


def _is_all(item: Any) -> bool:
    if item is Ellipsis:
        return True
    return isinstance(item, slice) and unwrap(item.start) in (None, 0) and item.stop is None and item.step is None


def _sums_tokens(context: Context, op: Op) -> bool:
    axes = context.axes[op.args[0].id]
    return axes.roles[axes.normal(argument(op, 1, "dim"))] == "s"


def _sum(context: Context, op: Op) -> Line | None:
    """A sum or difference of lines and whole numbers, or a line times ones."""
    if op.name not in ("add", "sub", "mul") or len(op.args) != 2 or op.kwargs:
        return None
    first, second = (_operand(context, arg) for arg in op.args)
    if first is None or second is None or not any(isinstance(arg, Ref) for arg in op.args):
        return None
    if op.name == "mul":
        ones = Line(0, 1)
        return first if second == ones else second if first == ones else None
    return Line(_number(op.name, first.step, second.step), _number(op.name, first.start, second.start))


def _number(op: str, first: Size, second: Size) -> Size:
    result = apply(op, first, second)
    assert isinstance(result, int | Scalar)
    return result


def _operand(context: Context, arg: Arg) -> Line | None:
    if isinstance(arg, Ref):
        return _PLACE if context.flow.resolve(arg.id) == POSITIONS else context.lines.get(arg.id)
    return Line(0, arg) if type(unwrap(arg)) is int else None
