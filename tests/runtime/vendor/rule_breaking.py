"""Breaks a rule of the simulator: a call that keeps every rule, and the same call with one fault."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from kunport_runtime.operators.check import check
from kunport_runtime.operators.registry import registry
from kunport_runtime.simulator.rules import VendorRuleError
from simulated_wheel import offered, simulated


def raises(rule: str) -> AbstractContextManager[Any]:
    return pytest.raises(VendorRuleError, match=f"^{rule}: ")


def int32(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int32)


def hold(rule: str, call: Callable[..., Any], good: dict[str, Any], *faults: dict[str, Any]) -> None:
    """The call keeps every rule; with each of the faults it breaks this one."""
    call(**good)
    for fault in faults:
        with raises(rule):
            call(**good | fault)


def wrong(contract: str, operator: str, fault: Callable[..., Any]) -> None:
    """With a fault in its calls of one operator, the vendor's way of a contract fails some of the contract's cases."""
    with simulated() as wheel:
        implementation = offered(wheel)[contract]
        assert not [each for each in check(registry.contract(contract), implementation, "float32") if each.fault]
        call = wheel.operator(operator)
        wheel._functions[operator] = lambda **options: fault(call, **options)
        outcomes = list(check(registry.contract(contract), implementation, "float32"))
    assert any("times the tolerance away" in each.fault for each in outcomes)
