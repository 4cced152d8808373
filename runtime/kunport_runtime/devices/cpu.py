"""The CPU: the embedded default, where everything runs that has a torch implementation."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from kunport_runtime.devices.device import Device, MemoryUse, Properties


class CpuDevice(Device):
    name = "cpu"
    torch_type = "cpu"
    communication_backend = "gloo"
    supports_graphs = False
    visible_devices_variable = "CPU_VISIBLE_MEMORY_NODES"
    ray_resource = "GPU"  # declared by hand (docs/platform.md): vLLM wants ids, which Ray has for accelerators alone

    def properties(self, index: int = 0) -> Properties:
        return Properties("cpu", len(os.sched_getaffinity(0)), _meminfo()["MemTotal"])

    def memory(self, index: int = 0) -> MemoryUse:
        """Torch keeps no account on the CPU: what is resident stands for it (weights mapped from files included)."""
        known = _meminfo()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return MemoryUse(known["MemTotal"], known["MemAvailable"], pages * os.sysconf("SC_PAGE_SIZE"))

    def use(self, index: int) -> None:
        """One CPU has no indices."""

    def seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def synchronize(self) -> None:
        """Nothing is queued on a CPU."""

    def release_cached(self) -> None:
        """Torch keeps nothing back on a CPU."""

    def tensor_device(self, index: int = 0) -> torch.device:
        return torch.device("cpu")


def _meminfo() -> dict[str, int]:
    """``/proc/meminfo`` in bytes."""
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return {fields[0].rstrip(":"): int(fields[1]) * 1024 for fields in lines}
