"""Peak memory of a batch, in two measures that answer different questions.

**Live bytes** are exact and are the model's own: torch's profiler reports every allocation and release of the CPU
allocator, and the peak of their running sum, counted from the start of the batch, is what the batch needs at its worst
moment beyond weights and KV cache (both were allocated before). Allocations inside libraries that do not
go through torch (a matrix product's scratch space) and Python objects are not in it. The profiler slows a run down, so
that this run is not the one that is timed.

**Resident bytes** are what the system sees: the peak resident set of the whole engine process (``VmHWM``, set back to
the current value before each batch through ``/proc/self/clear_refs``). Interpreter, libraries, weights, the used part
of the KV cache and memory that the C library keeps after it was freed are in it: it hardly moves between batch sizes of
a small model.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from torch.profiler import ProfilerActivity, profile


def reset_peak() -> None:
    """Set the peak resident set back to the current one; nothing happens where the system has no such thing."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_resident_bytes() -> int | None:
    """The peak resident set since `reset_peak`, None where the system does not tell."""
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None


def peak_live_bytes(work: Callable[[], object]) -> int:
    """The most bytes that torch held at once of those that it took while ``work`` ran."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        work()
    pending = list(recorded.profiler.kineto_results.experimental_event_tree())
    changes = []
    while pending:
        event = pending.pop()
        pending.extend(event.children)
        if event.tag.name == "Allocation":
            changes.append((event.start_time_ns, event.extra_fields.ptr, event.extra_fields.alloc_size))
    return _peak(sorted(changes, key=lambda change: change[0]))


def _peak(changes: list[tuple[int, int, int]]) -> int:
    """The peak of a running sum over (time, address, bytes); releases of what was taken earlier do not count."""
    taken: dict[int, int] = {}
    held = peak = 0
    for _, address, size in changes:
        if size > 0:
            taken[address] = size
            held += size
            peak = max(peak, held)
        else:
            held -= taken.pop(address, 0)
    return peak
