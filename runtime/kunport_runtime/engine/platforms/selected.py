"""The platform of this process's device: the module that vLLM imports, by the name in `kunport_activation`.

Importing it raises where the environment names a device that does not exist.
"""

from __future__ import annotations

from kunport_runtime.devices.registry import current_device

_DEVICE = current_device()

if _DEVICE.name == "cpu":
    from kunport_runtime.engine.platforms.cpu import CpuPlatform as SelectedPlatform
elif _DEVICE.name == "kunlun" and _DEVICE.torch_type == "cpu":
    from kunport_runtime.engine.platforms.simulated import SimulatedKunlunPlatform as SelectedPlatform
elif _DEVICE.name == "kunlun":
    from kunport_runtime.engine.platforms.accelerator import KunlunPlatform as SelectedPlatform
else:
    from kunport_runtime.engine.platforms.accelerator import CudaPlatform as SelectedPlatform

__all__ = ["SelectedPlatform"]
