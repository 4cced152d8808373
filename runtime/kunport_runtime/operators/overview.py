"""Which provider would run each operator on a device, and trying all implementations ahead of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from kunport_runtime.operators.binding import Binding, bind
from kunport_runtime.operators.contract import Contract
from kunport_runtime.operators.dispatch import Dispatcher
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.errors import OperatorError
from kunport_runtime.operators.implementation import REFERENCE


@dataclass(frozen=True, slots=True)
class Choice:
    """Who would run an operator.

    Attributes:
        operator: its name.
        family: the folder that its contract is in.
        provider: who would run the first case of its contract; "" where nobody would.
        tried: whether that one was tried on this device.
        others: provider -> why it would not, of those that are asked before it.
    """

    operator: str
    family: str
    provider: str
    tried: bool
    others: dict[str, str]


@dataclass(frozen=True, slots=True)
class Trial:
    """What trying an implementation showed: "" where it is right, else the reason why it is not used."""

    operator: str
    provider: str
    dtype: str
    reason: str


def overview(dispatcher: Dispatcher, device: torch.device, dtype: str) -> Iterator[Choice]:
    """The choice for every operator; nothing is tried."""
    for contract in dispatcher.registry.contracts():
        answers = dispatcher.explain(first_call(contract, device, dtype))
        chosen = next((provider for provider, reason in answers.items() if not reason), "")
        before = list(answers)[: list(answers).index(chosen)] if chosen else list(answers)
        others = {provider: answers[provider] or "" for provider in before}
        yield Choice(contract.name, contract.family, chosen, answers.get(chosen) is not None, others)


def try_all(
    dispatcher: Dispatcher, device: torch.device, dtypes: Sequence[str], operators: Sequence[str] = ()
) -> Iterator[Trial]:
    """Try whatever the policy may choose, so that no request waits for it, nor a graph's capture fails on it.

    Args:
        dispatcher: whose policy, registry and probes are meant.
        device: where.
        dtypes: of the operators.
        operators: their names; all by default.
    """
    registry = dispatcher.registry
    for contract in [registry.contract(name) for name in operators] or registry.contracts():
        implementations = registry.implementations(contract.name)
        for provider in dispatcher.candidates(contract.name, device):
            implementation = implementations.get(provider)
            if implementation is None or provider == REFERENCE:
                continue
            for dtype in dtypes:
                reason = dispatcher.probes.verdict(contract, implementation, dtype, device)
                yield Trial(contract.name, provider, dtype, reason)


def first_call(contract: Contract, device: torch.device, dtype: str) -> Binding:
    """The first case of a contract, a usual call.

    Raises:
        OperatorError: the contract has no such dtype.
    """
    if dtype not in contract.tolerance:
        raise OperatorError(f"{contract.name} has no {dtype}.", f"It has {', '.join(contract.tolerance)}.")
    return bind(contract, next(iter(contract.cases(Draw(getattr(torch, dtype), device)))).arguments)
