"""Tells an error for want of memory from others."""

from __future__ import annotations

import torch

from kunport_runtime.memory.budget import MemoryBudgetError

# torch's allocator for the CPU has no exception of its own.
_OF_THE_CPU = "DefaultCPUAllocator"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory was wanting, on a device or on the host; what was to be had is free again."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError | MemoryBudgetError):
        return True
    return isinstance(error, RuntimeError) and _OF_THE_CPU in str(error)
