"""How much memory all pools together may reserve, and the error before it is exceeded."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from kunport_runtime.errors import KunportRuntimeError

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class MemoryBudgetError(KunportRuntimeError):
    """Reserving memory would exceed the budget, or what the device has left."""


class Budget:
    """Bytes reserved by tag, against a limit.

    Args:
        limit: bytes, None for no limit but the device's own.
        available: asks the device how many bytes nobody uses.
    """

    def __init__(self, limit: int | None, available: Callable[[], int]) -> None:
        self.limit = limit
        self._available = available
        self.reserved: Counter[str] = Counter()

    def take(self, tag: str, size: int) -> None:
        """Count bytes that a pool is about to reserve.

        Raises:
            MemoryBudgetError: they are more than is left; nothing was reserved.
        """
        held = self.reserved.total()
        if self.limit is not None and held + size > self.limit:
            raise MemoryBudgetError(
                f"{tag} needs {readable(size)} more and {readable(max(0, self.limit - held))} of the memory budget of "
                f"{readable(self.limit)} is left ({self.described()}).",
                "Raise the budget, or lower the KV cache, the batch or the context.",
            )
        if size > (available := self._available()):
            raise MemoryBudgetError(
                f"{tag} needs {readable(size)} more and the device has {readable(available)} left"
                f" ({self.described()}).",
                "Free memory of the device, or lower the KV cache, the batch or the context.",
            )
        self.reserved[tag] += size

    def give(self, tag: str, size: int) -> None:
        """Count bytes that a pool gave back."""
        self.reserved[tag] -= size

    def described(self) -> str:
        """Who holds how much."""
        held = ", ".join(f"{tag} {readable(size)}" for tag, size in sorted(self.reserved.items()) if size)
        return f"reserved: {held or 'nothing'}"


def readable(size: int) -> str:
    """Bytes in the largest unit that leaves a number of at least 1."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(size) >= scale:
            return f"{size / scale:.2f} {unit}"
    return f"{size} B"


def parse_size(text: str) -> int:
    """Bytes of a text such as ``8GiB``, ``512M`` or ``1000000``.

    Raises:
        KunportRuntimeError: it is no size.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", text.strip().lower())
    if not found:
        raise KunportRuntimeError(f"{text!r} is no size of memory.", "Write a number with a unit, such as 8GiB.")
    return int(float(found[1]) * _UNITS[found[2]])
