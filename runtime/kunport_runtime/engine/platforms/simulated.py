"""The platform where the vendor's operators are simulated: that of the CPU, with Kunlun's order of providers."""

from __future__ import annotations

from typing import Any

from kunport_runtime.devices.simulated import SimulatedKunlunDevice
from kunport_runtime.engine.platforms.common import COMMUNICATOR
from kunport_runtime.engine.platforms.cpu import CpuPlatform
from kunport_runtime.providers.vendor.wheel import report_wheel


class SimulatedKunlunPlatform(CpuPlatform):
    device = SimulatedKunlunDevice()

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        report_wheel()
        super().check_and_update_config(vllm_config)

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        return f"{COMMUNICATOR}.CpuCommunicator"  # tensors are on the CPU
