"""Chains of row-wise operators become one kernel each: plain torch reads and writes every value between two of them.

Row-wise is what works on the last axis of each token by itself: arithmetic of tensors of one shape, of numbers, of
parameters as wide as a row and of one number a row; and sums over a row. A chain has one result, and what is between
is read by nothing else, so that nothing outside can tell. Each step keeps the precision that the source gives it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kunport_codegen.expression import Expr, Scalar, unwrap
from kunport_codegen.graph import DType, Location, Ref
from kunport_codegen.lowering.flow import NO_RESIDUAL, POSITIONS, Flow, Layout, Op, Size
from kunport_codegen.lowering.structure import Body, bodies, steps_of

# Operator -> how many operands it takes, and the keywords that are known of it.
_MAPS: dict[str, tuple[int, frozenset[str]]] = {
    **{name: (2, frozenset()) for name in ("add", "sub", "mul", "div", "pow", "maximum", "minimum")},
    **{name: (1, frozenset()) for name in ("neg", "square", "sqrt", "rsqrt", "exp", "log", "abs", "reciprocal")},
    **{name: (1, frozenset()) for name in ("tanh", "sigmoid", "silu", "relu", "float")},
    "gelu": (1, frozenset(("approximate",))),
    "clamp": (3, frozenset(("min", "max"))),
    "clamp_min": (2, frozenset(("min",))),
    "clamp_max": (2, frozenset(("max",))),
    "to": (2, frozenset()),
}
REDUCTIONS = frozenset(("mean", "sum", "amax"))
_EXPONENTS = (2, 3, 0.5, -0.5, -1)  # those that are products and roots
_CASTS = frozenset(("to", "float"))
_FLOATS = frozenset(("model", "float32"))
FULL, ROW, COLUMN, NUMBER = "full", "row", "column", "number"
_LEAST = 2  # operators of a chain, casts apart: one alone is as fast in torch


@dataclass(frozen=True, slots=True)
class Operand:
    """What a kernel is given.

    Attributes:
        value: a value, or a number that depends on the configuration.
        kind: a tensor of the rows' shape (``full``), of one number a row (``row``), of one row for all (``column``), or
            a ``number``.
    """

    value: Ref | Scalar | Expr
    kind: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """A chain of row-wise operators.

    Attributes:
        name: of its function.
        operands: in the order of the function's parameters.
        steps: in order; the last makes the result.
        sizes: of a token of the result; the last is a row.
        where: the source line of the last step.
    """

    name: str
    operands: tuple[Operand, ...]
    steps: tuple[Op, ...]
    sizes: tuple[Size, ...]
    where: Location

    @property
    def result(self) -> int:
        return self.steps[-1].results[0]

    @property
    def reduces(self) -> bool:
        """Whether a row must be seen whole."""
        return any(step.name in REDUCTIONS for step in self.steps)


def fuse_rows(flow: Flow, root: Body) -> None:
    """Put kernels in place of chains, in the body and in those inside it."""
    done: dict[int, list[Op]] = {}  # instances of a class share their steps
    counts: dict[str, int] = {}
    for body in _every(root):
        if id(body.steps) not in done:
            done[id(body.steps)] = _fused(flow, body, counts)
    for body in _every(root):
        body.steps[:] = done[id(body.steps)]


def kernels_of(root: Body) -> list[Kernel]:
    """The kernels of a body and of those inside it, each once, in order of appearance."""
    found = {step.fact.name: step.fact for step in steps_of(root) if step.name == "kernel"}
    return list(found.values())


def _every(body: Body) -> Iterator[Body]:
    yield body
    for step in body.steps:
        for inner in bodies(step):
            yield from _every(inner)


def _fused(flow: Flow, body: Body, counts: dict[str, int]) -> list[Op]:
    steps = list(body.steps)
    users: dict[int, set[int]] = {}
    for place, step in enumerate(steps):
        for value in step.inputs():
            users.setdefault(value, set()).add(place)
    for value in body.outputs:
        users.setdefault(value, set()).add(len(steps))
    taken: set[int] = set()
    kernels: dict[int, Op] = {}
    for last in reversed(range(len(steps))):
        chain = [] if last in taken else _chain(flow, steps, users, last, taken)
        if sum(steps[place].name not in _CASTS for place in chain) < _LEAST:
            continue
        operands = _operands(flow, [steps[place] for place in chain])
        if _says_shape_and_dtype(flow, operands, [steps[place] for place in chain]):
            taken.update(chain)
            kernels[last] = _call(flow, [steps[place] for place in chain], operands, _name(body.cls, counts))
    return [kernels.get(place, step) for place, step in enumerate(steps) if place in kernels or place not in taken]


def _chain(flow: Flow, steps: Sequence[Op], users: Mapping[int, set[int]], last: int, taken: set[int]) -> list[int]:
    """The places of the chain that ends in a step, in order; none if it is not row-wise."""
    layout = flow.layouts.get(steps[last].results[0])
    if layout is None or not layout.tokens or not layout.sizes or unwrap(layout.sizes[-1]) == 1:
        return []
    if (
        not _is_row_wise(flow, steps[last], layout.sizes)
        or _kind(flow, Ref(steps[last].results[0]), layout.sizes) != FULL
    ):
        return []
    chain = {last}
    for place in reversed(range(last)):
        step = steps[place]
        inside = place not in taken and len(step.results) == 1 and users.get(step.results[0], set()) <= chain
        if inside and _is_row_wise(flow, step, layout.sizes) and not _overwritten(steps, place, last):
            chain.add(place)
    return sorted(chain)


def _overwritten(steps: Sequence[Op], place: int, last: int) -> bool:
    """Whether something between writes over what a step reads, so that it cannot wait."""
    later = {value for step in steps[place + 1 : last] for value in written_over(step)}
    return not later.isdisjoint(steps[place].inputs())


def written_over(step: Op) -> list[int]:
    """The values that a layer of the engine may write its results over: rotation, and a norm that adds."""
    if step.member is None or step.name != "call" or len(step.results) < 2:
        return []
    return [value for value in step.inputs() if value not in (POSITIONS, NO_RESIDUAL)]


def _is_row_wise(flow: Flow, step: Op, sizes: Sequence[Size]) -> bool:
    if not _is_float(flow, step.results[0]) or _kind(flow, Ref(step.results[0]), sizes) not in (FULL, ROW):
        return False
    tensors = [arg for arg in step.args if isinstance(arg, Ref)]
    if any(_kind(flow, arg, sizes) is None or not _is_float(flow, arg.id) for arg in tensors):
        return False
    if step.name in REDUCTIONS:
        return len(tensors) == 1 and _kind(flow, tensors[0], sizes) == FULL and _is_over_rows(step, len(sizes) + 1)
    if step.name not in _MAPS or len(step.args) > _MAPS[step.name][0] or not step.kwargs.keys() <= _MAPS[step.name][1]:
        return False
    if step.name == "to":
        return len(step.args) == 2 and isinstance(step.args[1], DType)
    if step.name == "pow":
        return isinstance(step.args[0], Ref) and unwrap(step.args[1]) in _EXPONENTS
    if step.name == "gelu":
        return step.kwargs.get("approximate", "none") in ("none", "tanh")
    numbers = [arg for arg in (*step.args, *step.kwargs.values()) if not isinstance(arg, Ref)]
    return all(arg is None or _is_number(arg) for arg in numbers)


def _is_over_rows(step: Op, rank: int) -> bool:
    """Whether a reduction goes over the last axis and keeps it."""
    named = dict(zip(("dim", "keepdim"), step.args[1:], strict=False)) | step.kwargs
    axis = named.get("dim")
    axes = list(axis) if isinstance(axis, list | tuple) else [axis]
    return (
        named.keys() <= {"dim", "keepdim"}
        and unwrap(named.get("keepdim", False)) is True
        and [unwrap(each) for each in axes] in ([-1], [rank - 1])
    )


def _is_float(flow: Flow, value: int) -> bool:
    return _dtype(flow, value) in _FLOATS


def _is_number(arg: Any) -> bool:
    """Whether an argument is a number that is the same in every layer: one by the layer's index has no value."""
    value = unwrap(arg)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _kind(flow: Flow, arg: Ref, sizes: Sequence[Size]) -> str | None:
    """What a tensor is beside rows of these sizes."""
    layout: Layout | None = flow.layouts.get(arg.id)
    if layout is None:
        return None
    own, wanted = [unwrap(size) for size in layout.sizes], [unwrap(size) for size in sizes]
    if layout.tokens:
        return FULL if own == wanted else ROW if own == [*wanted[:-1], 1] else None
    return COLUMN if own and own[-1] == wanted[-1] and set(own[:-1]) <= {1} else None


def _says_shape_and_dtype(flow: Flow, operands: Sequence[Operand], chain: Sequence[Op]) -> bool:
    """Whether an operand has the result's shape, and one the model's dtype if anything is rounded to that."""
    values = [operand.value.id for operand in operands if isinstance(operand.value, Ref)]
    rounds = any(_dtype(flow, step.results[0]) == "model" for step in chain)
    return any(operand.kind == FULL for operand in operands) and (
        not rounds or any(_dtype(flow, value) == "model" for value in values)
    )


def _dtype(flow: Flow, value: int) -> str:
    dtype = flow.dtypes.get(value)
    return dtype.name if dtype is not None else ""


def _operands(flow: Flow, chain: Sequence[Op]) -> tuple[Operand, ...]:
    """What a chain is given, in the order in which it is first read."""
    layout = flow.layouts[chain[-1].results[0]]
    made = {step.results[0] for step in chain}
    operands: dict[Any, Operand] = {}
    for step in chain:
        for arg in (*step.args, *step.kwargs.values()):
            if isinstance(arg, Ref) and arg.id not in made:
                operands.setdefault(arg, Operand(arg, _kind(flow, arg, layout.sizes) or FULL))
            elif (
                isinstance(arg, Scalar | Expr) and (expr := arg.expr if isinstance(arg, Scalar) else arg).op != "const"
            ):
                operands.setdefault(expr, Operand(arg, NUMBER))
    return tuple(operands.values())


def _call(flow: Flow, chain: list[Op], operands: tuple[Operand, ...], name: str) -> Op:
    """The kernel as one step."""
    last = chain[-1]
    kernel = Kernel(name, operands, tuple(chain), flow.layouts[last.results[0]].sizes, last.where)
    return Op(
        "kernel",
        tuple(operand.value for operand in kernel.operands),
        {},
        last.results,
        last.owner,
        last.where,
        fact=kernel,
        origin=last.origin,
    )


def _name(cls: str, counts: dict[str, int]) -> str:
    """``new_gelu_activation_rows``, and a number where a class has several."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cls).lower()
    counts[words] = counts.get(words, 0) + 1
    number = f"_{counts[words]}" if counts[words] > 1 else ""
    return f"{words}_rows{number}"
