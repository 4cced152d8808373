"""CUDA: the stand-in for Kunlun. Its framework side is the same, since the vendor's torch presents itself as CUDA."""

from __future__ import annotations

import torch

from kunport_runtime.devices.device import Device, MemoryUse, Properties


class CudaDevice(Device):
    name = "cuda"
    torch_type = "cuda"
    communication_backend = "nccl"
    supports_graphs = True
    visible_devices_variable = "CUDA_VISIBLE_DEVICES"
    ray_resource = "GPU"
    ray_keep_variables = ("RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES",)

    def properties(self, index: int = 0) -> Properties:
        known = torch.cuda.get_device_properties(index)
        return Properties(known.name, known.multi_processor_count, known.total_memory, (known.major, known.minor))

    def memory(self, index: int = 0) -> MemoryUse:
        free, total = torch.cuda.mem_get_info(index)
        return MemoryUse(total, free, torch.cuda.memory_allocated(index))

    def use(self, index: int) -> None:
        torch.cuda.set_device(index)

    def seed(self, seed: int) -> None:
        torch.cuda.manual_seed_all(seed)

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    def release_cached(self) -> None:
        torch.cuda.empty_cache()
