"""A piece of the host's memory that blocks are cut from.

It is anonymous memory of the process's own: reserved at once, and taken from the machine page by page as it is written.
`discard` gives the pages back and keeps the addresses, so that tensors stay where they are while their pool sleeps.
"""

from __future__ import annotations

import mmap
import weakref
from collections.abc import Callable
from typing import BinaryIO

import numpy as np
import torch

_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


class Segment:
    """``size`` bytes, of which blocks are tensors.

    Args:
        size: bytes, a multiple of the system's page size.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._map = mmap.mmap(-1, size, flags=_PRIVATE)

    def block(self, start: int, size: int, released: Callable[[], object]) -> torch.Tensor:
        """Bytes ``[size]`` from ``start`` on, with a storage of their own.

        Args:
            start: from the segment's begin.
            size: bytes.
            released: called once, when the storage is gone: whatever shares it keeps it.
        """
        array = np.frombuffer(self._map, dtype=np.uint8, count=size, offset=start)
        weakref.finalize(array, released).atexit = False
        return torch.from_numpy(array)

    def discard(self) -> None:
        """Give the memory back to the machine. Everything in it reads as zero from now on."""
        self._map.madvise(mmap.MADV_DONTNEED)

    def save(self, file: BinaryIO, start: int, size: int) -> None:
        """Append bytes to a file."""
        file.write(memoryview(self._map)[start : start + size])

    def restore(self, file: BinaryIO, start: int, size: int) -> None:
        """Fill bytes from a file, from its position on."""
        file.readinto(memoryview(self._map)[start : start + size])  # type: ignore[attr-defined]

    def close(self) -> None:
        """Return it to the system.

        Raises:
            BufferError: a block of it is in use.
        """
        self._map.close()
