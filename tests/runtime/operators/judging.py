"""Holds a contract's reference against a formula written anew, in numpy and float64, on the contract's own cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from kunport_runtime.operators.binding import bind
from kunport_runtime.operators.check import copy_arguments
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.registry import registry

Formula = Callable[..., dict[str, np.ndarray]]


class EightBits(np.ndarray):
    """Numbers of 8 bits, with all that there are: ``grid``, finite and ascending."""

    grid: np.ndarray


def in_float64(value: Any) -> Any:
    """A tensor as an array: floats as float64, whole numbers as they are."""
    if not isinstance(value, torch.Tensor):
        return value
    if not value.dtype.is_floating_point:
        return value.numpy().copy()
    array = value.double().numpy().copy()
    if value.element_size() == 1:
        array = array.view(EightBits)
        numbers = torch.arange(256, dtype=torch.uint8).view(value.dtype).double().numpy()
        array.grid = np.unique(numbers[np.isfinite(numbers)])
    return array


def judge(name: str, formula: Formula, neighbours: float = 0.01) -> None:
    """Compare every changed tensor, in float32 and bfloat16.

    ``neighbours`` is the share of 8-bit numbers that may be the one beside the formula's: rounding decides near a tie.
    """
    contract = registry.contract(name)
    for dtype in ("float32", "bfloat16"):
        tolerance = contract.tolerance[dtype]
        for case in contract.cases(Draw(getattr(torch, dtype), seed=7)):
            arguments = bind(contract, case.arguments).arguments
            expected = formula(**{key: in_float64(value) for key, value in arguments.items()})
            actual = copy_arguments(contract, arguments)
            contract.reference(**actual)
            assert set(expected) == {key for key in contract.changed if actual[key] is not None}, name
            for key, wanted in expected.items():
                found = in_float64(actual[key])
                if not actual[key].dtype.is_floating_point:
                    np.testing.assert_array_equal(found, wanted, f"{name}, {case.label}, {key}")
                    continue
                eight_bits = isinstance(found, EightBits)
                np.testing.assert_allclose(
                    found,
                    wanted,
                    rtol=0.26 if eight_bits else tolerance.relative + 1e-7,
                    atol=2e-5 if eight_bits else tolerance.absolute,
                    err_msg=f"{name}, {dtype}, {case.label}, {key}",
                )
                if eight_bits:
                    beside = (found != wanted) & ~(np.isnan(found) & np.isnan(wanted))
                    assert beside.mean() <= neighbours, f"{name}, {case.label}, {key}"
