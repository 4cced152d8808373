"""The worker on an accelerator that presents itself as CUDA."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from vllm.v1.worker.gpu_worker import Worker

from kunport_runtime.engine.platforms.patches import supply_weak_references
from kunport_runtime.engine.runners.accelerator import AcceleratorModelRunner
from kunport_runtime.engine.workers.common import WorkerAdditions


class AcceleratorWorker(WorkerAdditions, Worker):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        supply_weak_references()
        super().__init__(*arguments, **options)

    def _make_model_runner(self) -> AcceleratorModelRunner:
        return AcceleratorModelRunner(self.vllm_config, self.device)

    def _maybe_get_memory_pool_context(self, tag: str) -> AbstractContextManager[None]:
        return nullcontext()
