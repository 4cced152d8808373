"""Changes to torch that no seam of vLLM allows to avoid. Each says why, for which versions, and when it goes."""

from __future__ import annotations

import torch


def nothing_cached_without_accelerator() -> None:
    """Let ``torch.accelerator.empty_cache`` and ``empty_host_cache`` do nothing on a machine without an accelerator.

    When an engine shuts down vLLM calls both unless ``is_cpu()``, which is false on an out-of-tree platform, and torch
    raises where there is none. vLLM's own CPU model runner does the like to the first in the processes it runs in. For
    vLLM 0.32 (``cleanup_dist_env_and_memory``); it goes once vLLM asks the platform.
    """
    if not torch.accelerator.is_available():
        torch.accelerator.empty_cache = _nothing
        torch.accelerator.empty_host_cache = _nothing


def _nothing() -> None:
    return None
