"""Environments of the processes: offline, with their share of the cores, and with the adapter or surely without."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_COMMON = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONUNBUFFERED": "1"}
_ENGINE = {
    # The engine core in the same process: peak memory and the class that ran are then its own.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    # Eager: the compiler takes minutes for a tiny model and is not what an adapter is judged by.
    "TORCHDYNAMO_DISABLE": "1",
    # Let OMP_NUM_THREADS decide: vLLM's own binding pins every thread to one core on small machines.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
}


def threads_per_process(processes: int) -> int:
    """Threads for each of several processes that run at once, so that together they fill the machine."""
    return max(1, len(os.sched_getaffinity(0)) // processes)


def reference_environment(threads: int) -> dict[str, str]:
    return {**os.environ, **_COMMON, "OMP_NUM_THREADS": str(threads)}


def engine_environment(adapter: Path | None, threads: int) -> dict[str, str]:
    """The engine's environment, with the adapter, or without any for vLLM's own choice of class."""
    environment = {**os.environ, **_COMMON, **_ENGINE, "OMP_NUM_THREADS": str(threads)}
    environment.pop("KUNPORT_ADAPTER_PATH", None)
    if adapter is not None:
        environment["KUNPORT_ADAPTER_PATH"] = str(adapter)
        # Adapters keep whole keys and values, also of models for which vLLM by itself would keep latents.
        environment["VLLM_MLA_DISABLE"] = "1"
    return environment


def own_modules(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The environment in which Transformers copies a checkpoint's code to ``folder`` before it runs it.

    Two processes that copy to the same place at once could import half of a file.
    """
    return {**environment, "HF_MODULES_CACHE": str(folder)}
