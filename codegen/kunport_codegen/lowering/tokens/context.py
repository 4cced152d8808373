"""What the rules share, and the table that they register in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import Arg, Ref
from kunport_codegen.lowering.errors import RefusedError
from kunport_codegen.lowering.flow import Flow, Layout, Op, Size
from kunport_codegen.lowering.tokens.axes import Axes, axes_of

Rule = Callable[["Context", Op], None]


class Rules(dict[str, Rule]):
    """Rules by operator."""

    def of(self, names: str) -> Callable[[Rule], Rule]:
        """Register a rule for these operators, names separated by spaces."""

        def register(function: Rule) -> Rule:
            self.update(dict.fromkeys(names.split(), function))
            return function

        return register


@dataclass(frozen=True, slots=True)
class Line:
    """A whole number for each token: ``step`` times its place in its sequence, plus ``start``."""

    step: Size
    start: Size


@dataclass(slots=True)
class Context:
    """What the rules share: the source's shapes, the axes known so far, and the operators written so far.

    ``lines`` are values that only count tokens and are not computed yet, ``counts`` tables of 0, 1, 2, ... that a
    source makes for more tokens than there are.
    """

    flow: Flow
    shapes: dict[int, tuple[Size, ...] | None]
    axes: dict[int, Axes]
    ops: list[Op] = field(default_factory=list)
    lines: dict[int, Line] = field(default_factory=dict)
    counts: set[int] = field(default_factory=set)

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


def argument(op: Op, position: int, name: str, default: Any = None) -> Any:
    return op.args[position] if len(op.args) > position else op.kwargs.get(name, default)


def single_shape(context: Context, op: Op) -> tuple[Size, ...]:
    return context.result_shapes(op)[0]
