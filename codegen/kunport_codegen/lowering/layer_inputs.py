"""What the layers of a list are given: the same for each, in one order, and what one hands to the next."""

from __future__ import annotations

from collections.abc import Sequence

from kunport_codegen.graph import Ref
from kunport_codegen.lowering.flow import POSITIONS, Op, basename
from kunport_codegen.lowering.selection import DifferentLayersError


def share_inputs(steps: Sequence[Op]) -> None:
    """Where some layers take the positions, or another value that is made before them all, every layer does."""
    _share_positions(steps)
    made = {result for step in steps for result in step.results}
    readers: dict[int, int] = {}
    for step in steps:
        for arg in step.args:
            readers[arg.id] = readers.get(arg.id, 0) + 1
    # What the first layer alone takes is what the others take of the one before.
    shared = [value for value, count in readers.items() if 1 < count < len(steps) and value not in made]
    if shared:
        _share(steps, shared)


def _share(steps: Sequence[Op], shared: Sequence[int]) -> None:
    """Hand the values to all steps, and to the modules inside of which some take them, in one order behind the rest."""
    taken = {value for step in steps for value in step.fact.inputs}
    wanted = [value for value in shared if value in taken]
    if not wanted:
        return
    for step in steps:
        own = [value for value in step.fact.inputs if value not in wanted]
        step.fact.inputs = [*own, *wanted]
        step.args = (*(arg for arg in step.args if arg.id not in wanted), *map(Ref, wanted))
    for group in _inside(steps).values():
        _share(group, shared)


def _share_positions(steps: Sequence[Op]) -> None:
    """Where one layer takes the positions, all do, and so do the modules inside: some layers may not rotate."""
    bodies = [step.fact for step in steps]
    if not any(POSITIONS in body.inputs for body in bodies):
        return
    for step, body in zip(steps, bodies, strict=True):
        if POSITIONS not in body.inputs:
            body.inputs.insert(0, POSITIONS)
            step.args = (Ref(POSITIONS), *step.args)
    for group in _inside(steps).values():
        _share_positions(group)


def _inside(steps: Sequence[Op]) -> dict[str, list[Op]]:
    """The steps into modules inside of those that some steps enter, by the module's name."""
    inner: dict[str, list[Op]] = {}
    for outer in steps:
        for step in outer.fact.steps:
            if step.name == "enter":
                inner.setdefault(basename(step.fact.path), []).append(step)
    return inner


def order_inputs(steps: Sequence[Op]) -> None:
    """Where layers take in different orders what they share and what each takes of the one before, that comes last.

    A fused addition takes values that the source's forward has no name for, so that they are not where its own were.
    """
    shared = set[int].intersection(*({arg.id for arg in step.args} for step in steps))
    patterns = {tuple(arg.id if arg.id in shared else None for arg in step.args) for step in steps}
    if len(patterns) == 1:
        return
    for step in steps:
        places = sorted(range(len(step.args)), key=lambda at: step.args[at].id not in shared)
        step.args = tuple(step.args[at] for at in places)
        step.fact.inputs = [step.fact.inputs[at] for at in places]


def carried_of(steps: list[Op], position: int) -> int | None:
    """Which result of each layer is the next one's input at this position; None if the input is the same for all."""
    if any(len(step.args) != len(steps[0].args) or len(step.results) != len(steps[0].results) for step in steps):
        raise DifferentLayersError("its layers take or return different values")
    inputs = [step.args[position].id for step in steps]
    if len(set(inputs)) == 1:
        return None
    for index in range(len(steps[0].results)):
        if all(before.results[index] == value for before, value in zip(steps, inputs[1:], strict=False)):
            return index
    raise DifferentLayersError("a layer takes a value that is neither its predecessor's nor the same for all layers")
