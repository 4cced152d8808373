"""The pools of a worker, by tag."""

from __future__ import annotations

from collections.abc import Iterable

from kunport_runtime.memory.allocation import AllocateIn
from kunport_runtime.memory.budget import Budget
from kunport_runtime.memory.pool import Account, Pool

KEPT = ("weights",)
"""Tags whose contents a light sleep brings back; what the others hold can be computed again."""
SLEEPING = ("weights", "kv_cache", "workspace")
"""Tags that a sleep gives back. The small tensors that vLLM keeps beside the KV cache stay."""


class Pools:
    """One pool for each tag that is asked for, under one budget."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._pools: dict[str, Pool] = {}

    def pool(self, tag: str) -> Pool:
        """The pool of a tag."""
        return self._pools.setdefault(tag, Pool(tag, self.budget))

    def allocate(self, tag: str) -> AllocateIn:
        """A context within which new tensors are the tag's."""
        return AllocateIn(self.pool(tag))

    def sleep(self, level: int) -> int:
        """Give memory back, and say how many bytes.

        Args:
            level: 1 keeps the weights on disk, 2 drops them as well.
        """
        awake = [pool for tag, pool in self._pools.items() if tag in SLEEPING]
        return sum(pool.sleep(keep=level == 1 and pool.tag in KEPT) for pool in awake)

    def wake(self, tags: Iterable[str] | None) -> None:
        """Wake the pools of some tags, None for all."""
        for tag, pool in self._pools.items():
            if tags is None or tag in tags:
                pool.wake()

    def trim(self) -> int:
        """Return what no pool needs to the system, and say how many bytes."""
        return sum(pool.trim() for pool in self._pools.values())

    def accounts(self) -> list[Account]:
        """What every pool holds."""
        return [pool.account() for pool in self._pools.values()]
