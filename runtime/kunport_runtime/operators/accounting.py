"""Who ran what: each call of an operator is counted with its layer, its provider, and why others were skipped.

`layer` names what is running; `ledger` holds the counts; `demand_no_fallback` makes a fallback an error. A call that
a graph captured is counted when it is captured, not when the graph is replayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from kunport_runtime.operators.errors import FallbackError

_layer: ContextVar[str] = ContextVar("layer", default="")
_demanded: ContextVar[bool] = ContextVar("demanded", default=False)


@dataclass(eq=False, slots=True)
class Decision:
    """Who runs the calls of one kind, and who does not.

    Attributes:
        operator: its name.
        provider: who was chosen.
        function: what runs.
        skipped: (provider, reason) of those that were asked before. A reason names a limit, not the size that was
            beyond it: sizes are without number, and the account must not grow with them.
    """

    operator: str
    provider: str
    function: Callable[..., None]
    skipped: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A line of the account.

    Attributes:
        layer: as `layer` named it; "" outside.
        operator: its name.
        provider: who ran it.
        count: how often.
        skipped: provider -> why it did not, for each that was asked before.
    """

    layer: str
    operator: str
    provider: str
    count: int
    skipped: dict[str, str]

    @property
    def fallback(self) -> bool:
        """Whether another provider was to run it."""
        return bool(self.skipped)


@dataclass(frozen=True, slots=True)
class Failure:
    """An implementation that was taken out of service.

    Attributes:
        operator: its name.
        provider: whose it is.
        dtype: in which it is out of service.
        reason: what happened.
    """

    operator: str
    provider: str
    dtype: str
    reason: str


class Ledger:
    """The account of a process. `ledger` is the one that everything uses."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, Decision]] = Counter()
        self.failures: list[Failure] = []

    def admit(self, decision: Decision) -> None:
        """Let a call begin.

        Raises:
            FallbackError: it is a fallback, within `demand_no_fallback`.
        """
        if decision.skipped and _demanded.get():
            reasons = "; ".join(f"{provider}: {reason}" for provider, reason in decision.skipped)
            where = f" in {_layer.get()}" if _layer.get() else ""
            raise FallbackError(
                f"{decision.operator}{where} would run on {decision.provider} ({reasons}).",
                "Repair that, or change the policy's order.",
            )

    def count(self, decision: Decision) -> None:
        """Count a call that has come back."""
        self._counts[_layer.get(), decision] += 1

    def records(self) -> list[Record]:
        """The account, by layer and operator in the order of their first calls."""
        merged: Counter[tuple[str, str, str, tuple[tuple[str, str], ...]]] = Counter()
        for (name, decision), count in self._counts.items():
            merged[name, decision.operator, decision.provider, decision.skipped] += count
        return [
            Record(name, operator, provider, count, dict(skipped))
            for (name, operator, provider, skipped), count in merged.items()
        ]

    def clear(self) -> None:
        """Start again."""
        self._counts.clear()
        self.failures.clear()


ledger = Ledger()


@contextmanager
def layer(name: str) -> Iterator[None]:
    """Count what runs within under this name, such as ``model.layers.3.self_attn``."""
    token = _layer.set(name)
    try:
        yield
    finally:
        _layer.reset(token)


def current_layer() -> str:
    """The name that `layer` gave what is running; "" outside."""
    return _layer.get()


@contextmanager
def demand_no_fallback() -> Iterator[None]:
    """Within, an operator that the policy's first provider does not run raises FallbackError."""
    token = _demanded.set(True)
    try:
        yield
    finally:
        _demanded.reset(token)
