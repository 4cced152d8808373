"""An implementation of an operator, and the provider that it belongs to."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from kunport_runtime.operators.limit import Limit

if TYPE_CHECKING:
    from kunport_runtime.operators.binding import Binding

REFERENCE = "torch"


@dataclass(frozen=True, slots=True)
class Implementation:
    """One provider's way to compute an operator.

    Attributes:
        operator: its name.
        provider: whose it is.
        function: takes the contract's arguments by keyword and returns nothing; or where it is,
            ``package.module:function``, imported when it is first chosen, so that a module that does not import takes
            only its own implementations out of service.
        limits: what it does not take, beside the contract's limits.
    """

    operator: str
    provider: str
    function: Callable[..., None] | str
    limits: tuple[Limit, ...] = ()

    def load(self) -> Callable[..., None]:
        """The function.

        Raises:
            Exception: whatever its module raises on import.
        """
        if not isinstance(self.function, str):
            return self.function
        module, _, name = self.function.partition(":")
        loaded: Callable[..., None] = getattr(import_module(module), name)
        return loaded

    def exceeded(self, call: Binding) -> Limit | None:
        """The first of its limits that a call is beyond."""
        return next((limit for limit in self.limits if limit.refusal(call)), None)

    def refusal(self, call: Binding) -> str:
        """Why it does not take a call; "" where it does."""
        limit = self.exceeded(call)
        return limit.refusal(call) if limit is not None else ""

    def digest(self) -> str:
        """Of the source that it comes from: its package, or its file where it is in none. Other code, other kernels."""
        module = sys.modules[self.load().__module__]
        path = Path(module.__file__ or "")
        return _digest(path.parent if module.__package__ else path)

    def __str__(self) -> str:
        return f"{self.provider}'s {self.operator}"


@cache
def _digest(path: Path) -> str:
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.suffix in (".py", ".json"))
    whole = sha256()
    for file in files:
        whole.update(file.read_bytes())
    return whole.hexdigest()[:16]
