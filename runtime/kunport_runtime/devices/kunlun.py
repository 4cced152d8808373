"""The Kunlun XPU, through the vendor's torch.

That torch presents itself as CUDA, so that every call of `CudaDevice` is made here as well. Written from the vendor's
public sources: nothing of this was run on a P800.
"""

from __future__ import annotations

from kunport_runtime.devices.cuda import CudaDevice
from kunport_runtime.devices.device import Properties


class KunlunDevice(CudaDevice):
    name = "kunlun"

    def properties(self, index: int = 0) -> Properties:
        # What the vendor's torch calls itself there is a CUDA name; users look for the one of their device.
        known = super().properties(index)
        return Properties(f"kunlun ({known.name})", known.compute_units, known.memory, known.capability)
