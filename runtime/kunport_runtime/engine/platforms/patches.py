"""Changes to torch and vLLM that no seam allows to avoid. Each says why, for which versions, and when it goes."""

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


def supply_weak_references() -> None:
    """Define ``torch.ops._C.weak_ref_tensor`` where no compiled code has.

    vLLM keeps the result of a captured graph by it, so that the graphs' pool may use the memory again (0.32,
    ``CUDAGraphWrapper``). It goes once vLLM does that without compiled code.
    """
    if not hasattr(torch.ops._C, "weak_ref_tensor"):
        _LIBRARY.define("weak_ref_tensor(Tensor input) -> Tensor")
        _LIBRARY.impl("weak_ref_tensor", weak_reference, "CompositeExplicitAutograd")


def allow_plain_experts() -> None:
    """Let a mixture have experts that are not gated: the layer that stands in for vLLM's computes them on all devices.

    vLLM refuses them on any platform but CUDA, ROCm and XPU, last of all when it checks the layer's settings (0.32,
    ``FusedMoEConfig``). It goes once vLLM asks the platform.
    """
    from vllm.model_executor.layers.fused_moe.config import FusedMoEConfig

    checked = FusedMoEConfig.__post_init__

    def check(config: FusedMoEConfig) -> None:
        try:
            checked(config)
        except NotImplementedError:
            if config.is_act_and_mul:
                raise

    FusedMoEConfig.__post_init__ = check


def weak_reference(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor at the place of another, which it does not keep alive."""
    storage = tensor.untyped_storage()
    borrowed = torch._C._construct_storage_from_data_pointer(storage.data_ptr(), tensor.device, storage.nbytes())
    place = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return place.set_(borrowed, tensor.storage_offset(), tensor.size(), tensor.stride())


def _nothing() -> None:
    return None


_LIBRARY = torch.library.Library("_C", "FRAGMENT")
"""Held: what it defines goes with it."""
