"""The model runner on an accelerator that presents itself as CUDA."""

from __future__ import annotations

from vllm.v1.worker.gpu_model_runner import GPUModelRunner

from kunport_runtime.engine.runners.common import RunnerAdditions
from kunport_runtime.engine.runners.decode_batches import DecodeBatches
from kunport_runtime.engine.runners.repeated_steps import RepeatedSteps


class AcceleratorModelRunner(RunnerAdditions, RepeatedSteps, DecodeBatches, GPUModelRunner):
    """vLLM's first runner: the second needs what only built-in platforms give (0.32)."""
