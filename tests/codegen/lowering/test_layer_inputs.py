"""What layers are given becomes the same for each."""

from __future__ import annotations

import pytest
from kunport_codegen.graph import Location, Ref
from kunport_codegen.lowering.flow import POSITIONS, Op
from kunport_codegen.lowering.layer_inputs import carried_of, order_inputs, share_inputs
from kunport_codegen.lowering.selection import DifferentLayersError
from kunport_codegen.lowering.structure import Body

WHERE = Location("model.py", 3)
START, COS, SIN = 1, 2, 3


def step(path: str, inputs: list[int], output: int, *inside: Op) -> Op:
    body = Body(path, "Layer", WHERE, list(inputs), [output], list(inside))
    return Op("enter", tuple(map(Ref, inputs)), {}, [output], "", WHERE, fact=body)


def layers(*extra: list[int]) -> list[Op]:
    """Layers that hand a value on, and whose attention takes what else they are given."""
    made, found = START, []
    for number, more in enumerate(extra):
        attention = step(f"layers.{number}.attention", [made, *more], 100 + number)
        found.append(step(f"layers.{number}", [made, *more], 10 + number, attention))
        made = 10 + number
    return found


def given(steps: list[Op]) -> list[list[int]]:
    return [[arg.id for arg in each.args] for each in steps]


def test_what_some_layers_take_is_given_to_all_and_to_the_modules_inside() -> None:
    steps = layers([COS, SIN], [], [SIN, COS], [])
    share_inputs(steps)
    assert given(steps) == [[START, COS, SIN], [10, COS, SIN], [11, COS, SIN], [12, COS, SIN]]
    assert given([each.fact.steps[0] for each in steps]) == given(steps)
    assert [each.fact.inputs for each in steps] == given(steps)
    assert [carried_of(steps, place) for place in range(3)] == [0, None, None]


def test_positions_come_first() -> None:
    steps = layers([], [POSITIONS], [])
    share_inputs(steps)
    order_inputs(steps)
    assert {args[0] for args in given(steps)} == {POSITIONS}


def test_what_one_layer_alone_takes_is_not_given_to_others() -> None:
    steps = layers([], [COS], [])
    share_inputs(steps)
    assert given(steps) == [[START], [10, COS], [11]]
    with pytest.raises(DifferentLayersError, match="take or return different values"):
        carried_of(steps, 0)
