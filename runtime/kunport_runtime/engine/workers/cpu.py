"""The worker on the CPU."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from vllm.v1.worker.cpu_worker import CPUWorker

from kunport_runtime.engine.workers.common import WorkerAdditions


class CpuWorker(WorkerAdditions, CPUWorker):
    """vLLM's CPU worker and model runner are honest base classes here: they handle the machine, and compute nothing."""

    def _maybe_get_memory_pool_context(self, tag: str) -> AbstractContextManager[None]:
        return nullcontext()
