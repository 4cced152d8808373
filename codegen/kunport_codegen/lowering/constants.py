"""Tables that follow from the configuration alone: computed once, when the model is built."""

from __future__ import annotations

from dataclasses import dataclass

from kunport_codegen.lowering.flow import Flow, Op, needed, substitute


@dataclass(frozen=True, slots=True)
class Constant:
    """How a table is computed: operators in order, of which the last makes ``value``.

    ``formula`` is the same for two tables only if they are computed alike.
    """

    ops: tuple[Op, ...]
    value: int
    formula: str


def fold_constants(flow: Flow) -> None:
    """Each table that something else reads becomes one operator without operands."""
    constant: set[int] = set()
    for op in flow.ops:
        if op.name not in ("input", "parameter", "call") and all(value in constant for value in op.inputs()):
            constant.update(op.results)
    kept = [op for op in flow.ops if constant.isdisjoint(op.results)]
    read = {value for op in kept for value in op.inputs()} & constant
    made = [op for op in flow.ops if not read.isdisjoint(op.results)]
    flow.ops = [*(op if op.name == "tensor" else _table(flow, op, op.results[0]) for op in made), *kept]


def _table(flow: Flow, op: Op, value: int) -> Op:
    ops = tuple(needed(flow.ops, value))
    numbers = {result: place for place, each in enumerate(ops) for result in each.results}
    formula = "; ".join(
        f"{each.name} {substitute(each.args, numbers.get)} {substitute(each.kwargs, numbers.get)}" for each in ops
    )
    return Op("constant", (), {}, [value], op.owner, op.where, fact=Constant(ops, value, formula))
