"""The errors of operators."""

from __future__ import annotations

from kunport_runtime.errors import KunportRuntimeError


class OperatorError(KunportRuntimeError):
    """Something about an operator is wrong: the base of the errors here."""


class ContractError(OperatorError):
    """A call does not fit the operator's contract: a shape, a dtype, a layout, or an argument that is not there."""


class UnsupportedOperatorError(OperatorError):
    """No provider that the policy allows takes this call. Names the operator, its arguments and the cure."""


class OperatorFailedError(OperatorError):
    """A kernel raised after it may have changed its arguments, so that no other provider can take the call over."""


class FallbackError(OperatorError):
    """A provider other than the first of the policy was chosen where that was not allowed."""


class PolicyError(OperatorError):
    """A policy cannot be read, or names what does not exist."""
