"""A machine without Kunlun on which the vendor's operators are simulated: the CPU, and nothing else.

The framework is told the truth, that tensors lie on a CPU; only the order of providers is Kunlun's. What the vendor's
torch does to the framework (it presents itself as CUDA) is not simulated: a CUDA device stands in for that.
"""

from __future__ import annotations

from kunport_runtime.devices.cpu import CpuDevice
from kunport_runtime.devices.device import Properties


class SimulatedKunlunDevice(CpuDevice):
    """The CPU, which says of itself that it simulates."""

    name = "kunlun"

    def properties(self, index: int = 0) -> Properties:
        known = super().properties(index)
        return Properties(f"simulator of kunlun ({known.name})", known.compute_units, known.memory)
