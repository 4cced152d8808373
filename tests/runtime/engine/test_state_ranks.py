"""Ranks that share out heads or channels of a state compute what one computes, of every operator with a state."""

import pytest
import torch
from kunport_runtime.engine.states import convolution, memories, recurrences, scans
from kunport_runtime.engine.states.layer import StateLayer
from kunport_runtime.engine.states.state import State, part_of
from kunport_runtime.operators.check import copy_arguments
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.registry import registry

LAYERS = [
    layer
    for module in (convolution, memories, recurrences, scans)
    for layer in vars(module).values()
    if isinstance(layer, type)
    and issubclass(layer, StateLayer)
    and layer.operators
    and layer is not convolution.TokenShift  # a short convolution of one weight
]


def test_every_operator_with_a_state_is_a_layers():
    assert {operator for layer in LAYERS for operator in layer.operators} == {
        contract.name for contract in registry.contracts() if contract.family == "state"
    }


@pytest.mark.parametrize("layer", LAYERS)
def test_parts_together_are_the_whole(layer):
    contract = registry.contract(layer.operators[0])
    axis = 2 if layer is recurrences.Rwkv else 1  # of a state, behind its slots
    compared = 0
    for case in contract.cases(Draw(torch.float32, "cpu", 0)):
        whole = copy_arguments(contract, case.arguments)
        contract.reference(**contract.defaults | whole)
        units = case.arguments[layer.state_names[0]].shape[axis]
        for ranks in (each for each in (2, 3, 4) if units % each == 0):
            for rank in range(ranks):
                arguments = copy_arguments(contract, case.arguments)
                for name, value in arguments.items():
                    place = axis if name in layer.state_names else layer.axis_of(name)
                    is_sequence = name in ("query_start_loc", "state_slots", "has_initial_state")
                    if isinstance(value, torch.Tensor) and not is_sequence and place is not None:
                        arguments[name] = part_of(value, place, units, ranks, rank).contiguous()
                contract.reference(**contract.defaults | arguments)
                for name, place in {"out": 1, **dict.fromkeys(layer.state_names, axis)}.items():
                    expected = part_of(whole[name], place, units, ranks, rank)
                    torch.testing.assert_close(arguments[name], expected)
                    compared += 1
    assert compared


@pytest.mark.parametrize(
    ("heads", "ranks", "groups", "expected"),
    [
        (4, 2, 4, [2, 3]),
        (4, 2, 2, [1]),
        (4, 2, 1, [0]),
        (8, 4, 2, [1]),
        (6, 2, 3, [1, 2, 2]),
    ],
)
def test_the_last_rank_reads_its_heads_groups(heads, ranks, groups, expected):
    assert part_of(torch.arange(groups), 0, heads, ranks, ranks - 1).tolist() == expected


def test_a_state_is_shared_out_along_its_heads_or_kept_whole():
    assert State((6, 5), sums=True).of_one(3).shape == (2, 5)
    assert State((3, 8), sums=True, axis=1).of_one(2).shape == (3, 4)
    assert State((5, 4), sums=True).of_one(2).shape == (5, 4)
