"""Runs an operator: holds the call against its contract, chooses who runs it, counts, and replaces what fails.

The choice is made once for each kind of call (dtypes, options and sizes that some limit is on) and remembered. So is
that a call of the same shapes, strides, dtypes and options fits: layers make the same calls over and over. An
implementation that raises is out of service for its operator and dtype from then on, and the next provider takes the
same call. Where the failed one may have changed an argument in place, a copy of that argument is used: copies are
taken of the first call of each signature, when kernels are compiled. A later failure of such an operator cannot be
undone, and raises.
"""

from __future__ import annotations

import logging
import os
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from kunport_runtime.memory.exhaustion import is_out_of_memory
from kunport_runtime.operators.account_files import VARIABLE as ACCOUNT_VARIABLE
from kunport_runtime.operators.account_files import keep_account
from kunport_runtime.operators.accounting import Decision, Failure, Ledger, ledger
from kunport_runtime.operators.binding import Binding, bind
from kunport_runtime.operators.contract import Contract
from kunport_runtime.operators.device import device_kind
from kunport_runtime.operators.errors import OperatorFailedError, UnsupportedOperatorError
from kunport_runtime.operators.implementation import REFERENCE, Implementation
from kunport_runtime.operators.policy import BUILT_IN, Policy, policy_of_environment
from kunport_runtime.operators.probe import Probes
from kunport_runtime.operators.profile_files import keep_profile
from kunport_runtime.operators.registry import Registry, registry
from kunport_runtime.operators.timing import VARIABLE as PROFILE_VARIABLE
from kunport_runtime.operators.timing import Timer

_LARGEST_COPY = 64 << 20  # bytes; a pool of states is larger, and is not copied
_MOST_CALLS = 4096  # that are remembered; lengths of prompts differ without end

_log = logging.getLogger(__name__)

Key = tuple[object, ...]


class Dispatcher:
    """Chooses and runs. `dispatcher` is the one that everything uses.

    Args:
        registry: of contracts and implementations.
        policy: who may run what; None for the environment's.
        probes: what is known of implementations.
        ledger: counts.
    """

    def __init__(self, registry: Registry, policy: Policy | None, probes: Probes, ledger: Ledger) -> None:
        self.registry = registry
        self.probes = probes
        self.ledger = ledger
        self.timer: Timer | None = None
        self._given = policy
        self._calls: dict[Key, tuple[Decision, dict[str, int], torch.device]] = {}
        self._decisions: dict[Key, Decision] = {}
        self._kinds: dict[Key, Decision] = {}
        self._deciding: dict[str, tuple[str, ...]] = {}
        self._out_of_service: dict[tuple[str, str, str], str] = {}

    @cached_property
    def policy(self) -> Policy:
        """The policy in force.

        Raises:
            PolicyError: it cannot be read, or names what does not exist.
        """
        policy = self._given or policy_of_environment()
        policy.check([each.name for each in self.registry.contracts()], self.registry.providers())
        return policy

    def use(self, policy: Policy) -> None:
        """Put another policy in force, from the next call on."""
        self._given = policy
        self.__dict__.pop("policy", None)
        self.forget()

    def forget(self) -> None:
        """Make every choice anew: for a registry that has changed."""
        for known in (self._calls, self._decisions, self._kinds, self._deciding):
            known.clear()

    def call(self, name: str, **arguments: Any) -> Any:
        """Run an operator and return its outputs: a tensor, a tuple of several, or None where it has none.

        A call without tokens, or without rows, runs nobody.

        Raises:
            ContractError: the call does not fit the contract.
            UnsupportedOperatorError: nobody that may run it takes it.
            FallbackError: see `demand_no_fallback`.
            OperatorFailedError: an implementation failed and its call cannot be repeated.
        """
        contract = self.registry.contract(name)
        key = _signature(name, arguments)
        known = self._calls.get(key) if key is not None else None
        if known is not None:
            decision, sizes, device = known
            call = Binding(contract, {**contract.defaults, **arguments}, sizes, device)
        else:
            call = bind(contract, arguments)
            if call.is_empty:
                call.allocate_outputs()
                return _outputs(call)
            decision = self.decide(call)
        call.allocate_outputs()
        while not self._run(decision, call, new=known is None):
            decision = self.decide(call)
        if key is not None and known is None:
            _remember(self._calls, key, (decision, call.sizes, call.device))
        return _outputs(call)

    def _run(self, decision: Decision, call: Binding, *, new: bool) -> bool:
        """Run a call; False where the implementation failed, is out of service now, and has left no trace."""
        self.ledger.admit(decision)
        copies = self._copy_updated(decision, call) if new else {}
        try:
            if self.timer is None:
                decision.function(**call.arguments)
            else:
                self.timer.run(decision, call)
        except Exception as error:
            if decision.provider == REFERENCE or is_out_of_memory(error):
                raise  # memory is wanting whoever computes
            self._take_out_of_service(decision, call, f"{type(error).__name__}: {error}")
            if call.contract.updated and not copies:
                raise OperatorFailedError(
                    f"{call} failed on {decision.provider} and may have changed its arguments ({error}).",
                    "Repeat the request; another provider runs it from now on.",
                ) from error
            for argument, copy in copies.items():
                call.arguments[argument].copy_(copy)
            return False
        self.ledger.count(decision)
        return True

    def decide(self, call: Binding) -> Decision:
        """Who runs a call.

        Raises:
            UnsupportedOperatorError: nobody.
        """
        contract = call.contract
        names = self._deciding.get(contract.name)
        if names is None:
            names = self._deciding[contract.name] = self._names_that_decide(contract)
        key = (contract.name, call.device, call.dtype, *(call.value(name) for name in names))
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._choose(call)
            _remember(self._decisions, key, decision)
        return decision

    def _names_that_decide(self, contract: Contract) -> tuple[str, ...]:
        limits = list(contract.limits)
        for implementation in self.registry.implementations(contract.name).values():
            limits.extend(implementation.limits)
        return tuple(sorted({name for limit in limits for name in limit.names()}))

    def _choose(self, call: Binding) -> Decision:
        contract = call.contract
        beyond = [reason for limit in contract.limits if (reason := limit.refusal(call))]
        if beyond:
            raise UnsupportedOperatorError(f"No provider runs {call}: {beyond[0]}.", "The contract says what is taken.")
        implementations = self.registry.implementations(contract.name)
        told: list[str] = []
        skipped: list[tuple[str, str]] = []
        for provider in self.candidates(contract.name, call.device):
            implementation = implementations.get(provider)
            reason = self._refusal(provider, implementation, call) or self._distrust(implementation, call)
            if implementation is not None and not reason:
                decision = Decision(contract.name, provider, implementation.load(), tuple(skipped))
                return self._kinds.setdefault((contract.name, provider, decision.function, *skipped), decision)
            limit = implementation.exceeded(call) if implementation is not None else None
            told.append(f"{provider}: {reason}")
            skipped.append((provider, reason if limit is None else f"it takes a call only where {limit}"))
        tried = "; ".join(told)
        raise UnsupportedOperatorError(
            f"No provider that the policy allows runs {call} ({tried or 'it allows none'}).",
            f"Allow {REFERENCE}, which runs everything, in the policy.",
        )

    def explain(self, call: Binding) -> dict[str, str | None]:
        """Provider -> why it does not run a call, "" where it would, None where it would be tried first.

        All that may run it, in the order in which they are asked; nothing is tried or counted.
        """
        implementations = self.registry.implementations(call.contract.name)
        answer: dict[str, str | None] = {}
        for provider in self.candidates(call.contract.name, call.device):
            implementation = implementations.get(provider)
            answer[provider] = self._refusal(provider, implementation, call)
            if implementation is not None and not answer[provider] and provider != REFERENCE and self.policy.probe:
                answer[provider] = self.probes.known(implementation, call.dtype, call.device)
        return answer

    def candidates(self, operator: str, device: torch.device) -> tuple[str, ...]:
        """Who is asked for an operator on a device, in order."""
        own = [each for each in self.registry.implementations(operator) if each not in BUILT_IN]
        return self.policy.candidates(operator, device_kind(device), own)

    def _refusal(self, provider: str, implementation: Implementation | None, call: Binding) -> str:
        """Why a provider does not run a call; "" where it does."""
        if implementation is None:
            return self.registry.absence(provider) or f"it has no {call.contract.name}"
        if provider == REFERENCE:
            return ""
        if reason := implementation.refusal(call):
            return reason
        return self._out_of_service.get((call.contract.name, provider, call.dtype), "")

    def _distrust(self, implementation: Implementation | None, call: Binding) -> str:
        """Why an implementation is not trusted; "" where it is. Tries it where that is not known."""
        if implementation is None or implementation.provider == REFERENCE:
            return ""
        provider = implementation.provider
        if not self.policy.probe:
            return self.probes.loads(implementation)
        reason = self.probes.verdict(call.contract, implementation, call.dtype, call.device)
        if reason:
            self._report(Failure(call.contract.name, provider, call.dtype, reason))
        return reason

    def _copy_updated(self, decision: Decision, call: Binding) -> dict[str, torch.Tensor]:
        if decision.provider == REFERENCE:
            return {}
        tensors = {name: call.arguments[name] for name in call.contract.updated if call.arguments[name] is not None}
        if sum(each.numel() * each.element_size() for each in tensors.values()) > _LARGEST_COPY:
            return {}
        return {name: each.clone() for name, each in tensors.items()}

    def _take_out_of_service(self, decision: Decision, call: Binding, reason: str) -> None:
        self._report(Failure(decision.operator, decision.provider, call.dtype, reason))
        self._calls.clear()
        self._decisions.clear()

    def _report(self, failure: Failure) -> None:
        self._out_of_service[failure.operator, failure.provider, failure.dtype] = failure.reason
        self.ledger.failures.append(failure)
        _log.warning(
            "%s's %s is out of service in %s: %s", failure.provider, failure.operator, failure.dtype, failure.reason
        )


def _outputs(call: Binding) -> Any:
    outputs = tuple(call.arguments[each.name] for each in call.contract.outputs)
    return outputs[0] if len(outputs) == 1 else outputs or None


def _remember(known: dict[Key, Any], key: Key, value: object) -> None:
    if len(known) >= _MOST_CALLS:
        known.clear()
    known[key] = value


def _signature(name: str, arguments: dict[str, Any]) -> Key | None:
    """All of a call that its contract and its choice depend on; None where an argument is of no kind that fits."""
    key: list[object] = [name]
    for argument, value in arguments.items():
        key.append(argument)
        if isinstance(value, torch.Tensor):
            key += (value.shape, value.stride(), value.dtype, value.device)
        elif isinstance(value, list | dict | set):
            return None
        else:
            key += (type(value), value)
    return tuple(key)


dispatcher = Dispatcher(registry, None, Probes(), ledger)
call = dispatcher.call
if os.environ.get(ACCOUNT_VARIABLE):
    keep_account(ledger, Path(os.environ[ACCOUNT_VARIABLE]))
if os.environ.get(PROFILE_VARIABLE):
    dispatcher.timer = Timer()
    keep_profile(dispatcher.timer, Path(os.environ[PROFILE_VARIABLE]))
