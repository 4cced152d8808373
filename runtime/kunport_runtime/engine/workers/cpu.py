"""The worker on the CPU."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import PurePath

from vllm.platforms import current_platform
from vllm.utils.torch_utils import set_random_seed
from vllm.v1.worker.cpu_worker import CPUWorker
from vllm.v1.worker.gpu_worker import init_worker_distributed_environment

from kunport_runtime.devices.cpu import CpuDevice
from kunport_runtime.engine.runners.cpu import CpuModelRunner
from kunport_runtime.engine.workers.common import WorkerAdditions


class CpuWorker(WorkerAdditions, CPUWorker):
    """vLLM's CPU worker is an honest base class: it handles the machine's memory, and computes nothing."""

    def init_device(self) -> None:
        """Join the other ranks and make the model runner.

        The base class would make its own runner, and keep torch from ever setting its number of threads.
        """
        self.device = CpuDevice().tensor_device()
        # vLLM names the memory that ranks of a machine share by this: the rendezvous's file or port.
        meeting = self.distributed_init_method
        is_file = meeting.startswith("file://")
        os.environ["VLLM_DIST_IDENT"] = PurePath(meeting).name if is_file else meeting.rpartition(":")[2]
        init_worker_distributed_environment(
            self.vllm_config, self.rank, meeting, self.local_rank, current_platform.dist_backend
        )
        set_random_seed(self.model_config.seed)
        self.model_runner = CpuModelRunner(self.vllm_config, self.device)

    def _maybe_get_memory_pool_context(self, tag: str) -> AbstractContextManager[None]:
        return nullcontext()
