"""The vendor's sampling, with random numbers that no seed reaches, as on the device."""

from __future__ import annotations

import torch
from torch import Tensor

from kunport_runtime.simulator.rules import require

_DEVICE = torch.Generator()  # what the device's default generator stands for
_DEVICE.seed()  # from the system: ranks, runs and `manual_seed` make no difference to it


def top_k_sampling_from_probs(
    probs: Tensor, top_k: Tensor, deterministic: bool = True, generator: torch.Generator | None = None
) -> Tensor:
    """A token ``[rows]`` int32 of each row of ``probs`` ``[rows, vocabulary]``, among its ``top_k`` largest."""
    return _draw(_most_probable(_held(probs, generator), top_k))


def top_p_sampling_from_probs(
    probs: Tensor, top_p: Tensor, deterministic: bool = True, generator: torch.Generator | None = None
) -> Tensor:
    """The same, among the largest that together have ``top_p``."""
    return _draw(_nucleus(_held(probs, generator), top_p))


def top_k_top_p_sampling_from_probs(
    probs: Tensor, top_k: Tensor, top_p: Tensor, deterministic: bool = True, generator: torch.Generator | None = None
) -> Tensor:
    """Both, the first first."""
    kept = _most_probable(_held(probs, generator), top_k)
    return _draw(_nucleus(kept / kept.sum(-1, keepdim=True), top_p))


def inplace_exponential(x: Tensor, generator: torch.Generator | None) -> None:
    """Exponential random numbers into ``x``; these do obey a generator."""
    x.exponential_(generator=generator or _DEVICE)


def _held(probs: Tensor, generator: torch.Generator | None) -> Tensor:
    require("request_generator", generator is None, "a generator was given")
    holds = probs.dtype == torch.float32 and probs.is_contiguous()
    require("sampling_form", holds, f"{probs.dtype} with strides {probs.stride()}")
    return probs


def _most_probable(probs: Tensor, top_k: Tensor) -> Tensor:
    least = probs.sort(-1, descending=True).values.gather(1, top_k.long().clamp(1, probs.shape[1]).unsqueeze(1) - 1)
    return torch.where(probs >= least, probs, 0.0)


def _nucleus(probs: Tensor, top_p: Tensor) -> Tensor:
    ordered, order = probs.sort(-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    return torch.where(before < top_p.unsqueeze(1), ordered, 0.0).gather(1, order.argsort(-1))


def _draw(probs: Tensor) -> Tensor:
    noise = torch.empty_like(probs)
    inplace_exponential(noise, None)
    return (probs / noise).argmax(-1).to(torch.int32)


OPERATORS = (
    "top_k_sampling_from_probs",
    "top_p_sampling_from_probs",
    "top_k_top_p_sampling_from_probs",
    "inplace_exponential",
)
