"""The model runner on the CPU."""

from __future__ import annotations

from vllm.v1.worker.cpu_model_runner import CPUModelRunner

from kunport_runtime.engine.runners.common import RunnerAdditions
from kunport_runtime.engine.runners.decode_batches import DecodeBatches


class CpuModelRunner(RunnerAdditions, DecodeBatches, CPUModelRunner):
    """vLLM's CPU runner is the GPU's with the device's tensors being the host's: it computes nothing by itself."""
