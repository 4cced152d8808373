"""The worker on the CPU."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import PurePath
from typing import Any

from vllm.logger import init_logger
from vllm.platforms import current_platform
from vllm.utils.torch_utils import set_random_seed
from vllm.v1.worker.cpu_worker import CPUWorker
from vllm.v1.worker.gpu_worker import init_worker_distributed_environment

from kunport_runtime.devices.cpu import CpuDevice
from kunport_runtime.engine.memory import plan_memory
from kunport_runtime.engine.runners.cpu import CpuModelRunner
from kunport_runtime.engine.settings import memory_budget
from kunport_runtime.engine.workers.common import WorkerAdditions
from kunport_runtime.memory.allocation import AllocateIn
from kunport_runtime.memory.budget import Budget, readable
from kunport_runtime.memory.pools import Pools

logger = init_logger(f"vllm.{__name__}")


class CpuWorker(WorkerAdditions, CPUWorker):
    """vLLM's CPU worker is an honest base class: it handles the machine's memory, and computes nothing."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._limit = memory_budget() or self.requested_cpu_memory
        self.pools = Pools(Budget(self._limit, lambda: CpuDevice().memory().free))

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

    def load_model(self, **options: Any) -> None:
        """Load the weights into memory that was reserved for them."""
        plan = plan_memory(self.vllm_config)
        plan.check(self._limit)
        if plan.weights:
            self.pools.pool("weights").reserve(plan.weights)
        super().load_model(**options)
        self.pools.trim()

    def _maybe_get_memory_pool_context(self, tag: str) -> AllocateIn:
        return self.pools.allocate(tag)

    def sleep(self, level: int = 1) -> None:
        """Give the memory of the KV cache and the weights back; level 1 keeps the weights on disk."""
        freed = self.pools.sleep(level)
        logger.info("Asleep: %s given back.", readable(freed))

    def wake_up(self, tags: list[str] | None = None) -> None:
        """Undo `sleep` for the pools of some tags, None for all."""
        self.pools.wake(tags)

    def kunport_memory(self) -> list[dict[str, Any]]:
        """What this worker's pools hold: a dictionary for each (``collective_rpc``)."""
        return [asdict(account) for account in self.pools.accounts()]
