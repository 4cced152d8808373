"""A body's steps as statements: what is written inside other expressions, and what gets a name.

A value read once is written where it is read, unless something in between writes over what it is computed from.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kunport_codegen.graph import refs
from kunport_codegen.lowering.flow import Op
from kunport_codegen.lowering.rowwise import written_over
from kunport_codegen.lowering.structure import LEAVES

_NAMED = frozenset(("split_heads", "chunk", "split", "unbind", "topk", "layers"))


@dataclass(slots=True)
class Statement:
    """A step that is written as a statement, with the steps written inside its expression.

    ``reads`` are the named values that it reads; ``alive`` the values that something after it still reads.
    """

    step: Op
    reads: set[int] = field(default_factory=set)
    alive: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Plan:
    """The statements in order, and the step that makes each value that is written in place."""

    statements: list[Statement]
    inline: dict[int, Op]


def plan(steps: list[Op], outputs: list[int]) -> Plan:
    """Decide which steps are statements, and what is alive after each."""
    uses: dict[int, int] = {}
    consumer: dict[int, int] = {}
    for position, step in enumerate(steps):
        for value in step.inputs():
            uses[value] = uses.get(value, 0) + 1
            consumer[value] = position
    for value in outputs:
        uses[value] = uses.get(value, 0) + 1
        consumer[value] = len(steps)
    inline = _inline(steps, uses, consumer)
    statements = [Statement(step) for step in steps if step.results[0] not in inline and step.name not in LEAVES]
    _liveness(statements, inline, outputs)
    return Plan(statements, inline)


def _inline(steps: list[Op], uses: dict[int, int], consumer: dict[int, int]) -> dict[int, Op]:
    """The steps written in place, by result. Decided from the end: a step is evaluated where its reader is."""
    producers = {result: step for step in steps for result in step.results}
    inline: dict[int, Op] = {}
    evaluated: dict[int, int] = {}
    for position in reversed(range(len(steps))):
        step = steps[position]
        evaluated[id(step)] = position
        result = step.results[0]
        if not _can_inline(step) or uses.get(result) != 1:
            continue
        end = consumer[result]
        if end < len(steps):
            end = evaluated[id(steps[end])]
        overwritten = {value for later in steps[position + 1 : end] for value in written_over(later)}
        if not overwritten & _reads(step, producers, uses):
            inline[result] = step
            evaluated[id(step)] = end
    return inline


def _reads(step: Op, producers: dict[int, Op], uses: dict[int, int]) -> set[int]:
    """What a step reads, and what steps read that may be written inside it."""
    reads: set[int] = set()
    pending = step.inputs()
    while pending:
        value = pending.pop()
        reads.add(value)
        if value in producers and uses[value] == 1 and _can_inline(producers[value]):
            pending.extend(producers[value].inputs())
    return reads


def _can_inline(step: Op) -> bool:
    whole = step.member is not None and (step.member.returns == "pair" or step.member.when is not None)
    return len(step.results) == 1 and not whole and step.name not in _NAMED and step.name not in LEAVES | {"input"}


def _liveness(statements: list[Statement], inline: dict[int, Op], outputs: list[int]) -> None:
    alive = leaves(outputs, inline)
    for statement in reversed(statements):
        statement.alive = set(alive)
        statement.reads = leaves(statement.step.inputs(), inline)
        alive = (alive - set(statement.step.results)) | statement.reads


def leaves(values: list[int], inline: dict[int, Op]) -> set[int]:
    """The named values behind values that are written in place."""
    found: set[int] = set()
    pending = list(values)
    while pending:
        value = pending.pop()
        if value in inline:
            pending.extend(refs((inline[value].args, inline[value].kwargs)))
        else:
            found.add(value)
    return found
