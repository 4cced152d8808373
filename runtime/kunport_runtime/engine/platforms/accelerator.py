"""The platform on an accelerator that presents itself to torch as CUDA: Kunlun, and CUDA as its stand-in."""

from __future__ import annotations

import os
from typing import Any, ClassVar

import torch
from vllm.platforms.interface import DeviceCapability

from kunport_runtime.devices.cuda import CudaDevice
from kunport_runtime.devices.kunlun import KunlunDevice
from kunport_runtime.engine.platforms.common import KunportPlatform
from kunport_runtime.providers.vendor.wheel import report_wheel

# The second model runner asks for views of host memory that only built-in platforms give (vLLM 0.32). vLLM asks which
# runner it is before it asks the platform anything.
os.environ.setdefault("VLLM_USE_V2_MODEL_RUNNER", "0")


class AcceleratorPlatform(KunportPlatform):
    """Memory, graphs and communication of a device that torch knows as ``cuda``."""

    device_name = "cuda"
    device_type = "cuda"
    dispatch_key = "CUDA"
    dist_backend = "nccl"
    worker = "kunport_runtime.engine.workers.accelerator.AcceleratorWorker"

    @classmethod
    def get_device_capability(cls, device_id: int = 0) -> DeviceCapability | None:
        capability = cls.device.properties(device_id).capability
        return DeviceCapability(*capability) if capability else None

    @classmethod
    def set_device(cls, device: torch.device) -> None:
        cls.device.use(device.index or 0)

    @classmethod
    def import_kernels(cls) -> None:
        """None of vLLM's compiled kernels: the operators are kunport's, and the build may have none for this device."""

    @classmethod
    def get_static_graph_wrapper_cls(cls) -> str:
        return "vllm.compilation.cuda_graph.CUDAGraphWrapper"


class CudaPlatform(AcceleratorPlatform):
    device = CudaDevice()
    device_control_env_var = device.visible_devices_variable
    ray_device_key = device.ray_resource
    ray_noset_device_env_vars: ClassVar[list[str]] = list(device.ray_keep_variables)


class KunlunPlatform(AcceleratorPlatform):
    device = KunlunDevice()
    device_control_env_var = device.visible_devices_variable
    ray_device_key = device.ray_resource
    ray_noset_device_env_vars: ClassVar[list[str]] = list(device.ray_keep_variables)

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        report_wheel()
        super().check_and_update_config(vllm_config)
