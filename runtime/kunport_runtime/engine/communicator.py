"""Communication between ranks: the library of each device through torch, with vLLM's shared memory on the CPU."""

from __future__ import annotations

from vllm.distributed.device_communicators.base_device_communicator import DeviceCommunicatorBase
from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator as VllmCpuCommunicator


class CpuCommunicator(VllmCpuCommunicator):
    """vLLM's: shared memory where all ranks are on one machine, gloo otherwise."""


class CudaCommunicator(DeviceCommunicatorBase):
    """torch.distributed over NCCL."""


class KunlunCommunicator(DeviceCommunicatorBase):
    """The same: the vendor's torch routes NCCL's interface to a library of its own. Not run on a P800."""
