"""The memory of one tag."""

from __future__ import annotations

import mmap
import tempfile
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from threading import RLock
from typing import BinaryIO

import torch

from kunport_runtime.memory.blocks import Blocks, aligned
from kunport_runtime.memory.budget import Budget, readable
from kunport_runtime.memory.segment import Segment

_GROWTH = 1 << 20  # bytes; a pool that is full grows by at least that


@dataclass(frozen=True, slots=True)
class Account:
    """What a pool holds, in bytes.

    Attributes:
        tag: of the pool.
        reserved: of all segments; always ``used + padding + free``.
        used: that live tensors were asked for.
        padding: lost to alignment.
        free: ready for new tensors.
        peak: the most that was ever used.
        tensors: storages alive.
        asleep: whether the memory was given back for now.
    """

    tag: str
    reserved: int
    used: int
    padding: int
    free: int
    peak: int
    tensors: int
    asleep: bool


class _Part:
    """A segment and its blocks."""

    def __init__(self, size: int) -> None:
        self.segment = Segment(size)
        self.blocks = Blocks(size)


class Pool:
    """Tensors in segments that the pool reserves, grows and returns.

    A tensor's memory comes back when its last view is gone, whoever holds it and in whichever thread: the release is
    noted there, and done at the pool's next call.
    """

    def __init__(self, tag: str, budget: Budget) -> None:
        self.tag = tag
        self._budget = budget
        self._parts: list[_Part] = []
        self._released: deque[tuple[_Part, int]] = deque()
        self._lock = RLock()
        self._peak = 0
        self._used = 0
        self._backup: BinaryIO | None = None
        self.asleep = False

    def reserve(self, size: int) -> None:
        """Reserve one more segment of at least ``size`` bytes.

        Raises:
            MemoryBudgetError: the budget or the device has not that much left.
        """
        size = aligned(size, mmap.PAGESIZE)
        with self._lock:
            self._budget.take(self.tag, size)
            self._parts.append(_Part(size))

    def empty(self, size: Sequence[int], dtype: torch.dtype, stride: Sequence[int] | None = None) -> torch.Tensor:
        """A tensor whose contents are undefined, contiguous without ``stride``.

        Raises:
            MemoryBudgetError: the pool would have to grow beyond the budget or the device.
        """
        strides = tuple(stride) if stride is not None else torch.empty(size, device="meta").stride()
        elements = 0 if 0 in size else 1 + sum((n - 1) * step for n, step in zip(size, strides, strict=True))
        if not elements:
            return torch.empty(size, dtype=dtype)
        # By `set_`, not by a view of the bytes: the tensor is to be a base, with a version of its own.
        storage = self._bytes(elements * dtype.itemsize).untyped_storage()
        return torch.empty(0, dtype=dtype).set_(storage, 0, torch.Size(size), strides)

    def _bytes(self, size: int) -> torch.Tensor:
        with self._lock:
            self._collect()
            part, start = self._place(size)
            self._used += size
            self._peak = max(self._peak, self._used)
            return part.segment.block(start, size, partial(self._released.append, (part, start)))

    def _place(self, size: int) -> tuple[_Part, int]:
        for part in self._parts:
            if (start := part.blocks.take(size)) is not None:
                return part, start
        self.reserve(max(aligned(size), _GROWTH))
        start = self._parts[-1].blocks.take(size)
        assert start is not None  # the segment is as large as the block
        return self._parts[-1], start

    def _collect(self) -> None:
        while self._released:
            part, start = self._released.popleft()
            self._used -= part.blocks.taken[start]
            part.blocks.give(start)

    def trim(self) -> int:
        """Return segments that hold nothing to the system, and say how many bytes these were."""
        with self._lock:
            self._collect()
            empty = [part for part in self._parts if not part.blocks.taken]
            self._parts = [part for part in self._parts if part.blocks.taken]
            for part in empty:
                part.segment.close()
                self._budget.give(self.tag, part.segment.size)
            return sum(part.segment.size for part in empty)

    def sleep(self, keep: bool) -> int:
        """Give the memory of all tensors back to the machine, and say how many bytes these had; they stay, unread.

        Args:
            keep: whether `wake` brings their contents back, from a file on disk meanwhile; else they read as zero.
        """
        with self._lock:
            self._collect()
            if self.asleep:
                return 0
            if keep:
                self._backup = tempfile.TemporaryFile(prefix=f"kunport-{self.tag}-")  # noqa: SIM115
                for part in self._parts:
                    for start, size in part.blocks.taken.items():
                        part.segment.save(self._backup, start, size)
            for part in self._parts:
                part.segment.discard()
            self.asleep = True
            return self._used

    def wake(self) -> None:
        """Undo `sleep`."""
        with self._lock:
            if self.asleep and self._backup is not None:
                self._backup.seek(0)
                for part in self._parts:
                    for start, size in part.blocks.taken.items():
                        part.segment.restore(self._backup, start, size)
                self._backup.close()
                self._backup = None
            self.asleep = False

    def account(self) -> Account:
        """What the pool holds now, summed over its blocks."""
        with self._lock:
            self._collect()
            blocks = [part.blocks for part in self._parts]
            return Account(
                tag=self.tag,
                reserved=sum(each.size for each in blocks),
                used=sum(each.used for each in blocks),
                padding=sum(each.padding for each in blocks),
                free=sum(each.free for each in blocks),
                peak=self._peak,
                tensors=sum(len(each.taken) for each in blocks),
                asleep=self.asleep,
            )

    def __repr__(self) -> str:
        return f"Pool({self.tag!r}, {readable(self._used)} used)"
