"""What a layer keeps of one sequence."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from vllm.config import VllmConfig
from vllm.utils.torch_utils import STR_DTYPE_TO_TORCH_DTYPE


@dataclass(frozen=True, slots=True)
class State:
    """One tensor for each sequence.

    Attributes:
        shape: of one sequence's.
        sums: whether it adds up over tokens, and is kept in float32 unless vLLM is told otherwise
            (``--mamba-ssm-cache-dtype``); what holds inputs is kept in the model's dtype (``--mamba-cache-dtype``).
        axis: of its heads or channels, which do not depend on each other.
    """

    shape: tuple[int, ...]
    sums: bool
    axis: int = 0

    def ranks(self, ranks: int) -> int:
        """How many of a group of ranks share it out: all, or one where its heads do not divide."""
        return ranks if self.shape[self.axis] % ranks == 0 else 1

    def of_one(self, ranks: int) -> State:
        """What one rank of a group keeps of it."""
        size = self.shape[self.axis] // self.ranks(ranks)
        return replace(self, shape=(*self.shape[: self.axis], size, *self.shape[self.axis + 1 :]))

    def dtype(self, vllm_config: VllmConfig) -> torch.dtype:
        """In which it is kept."""
        cache = vllm_config.cache_config
        named = cache.mamba_ssm_cache_dtype if self.sums else cache.mamba_cache_dtype
        if named != "auto":
            return STR_DTYPE_TO_TORCH_DTYPE[named]
        return torch.float32 if self.sums else vllm_config.model_config.dtype


def part_of(tensor: Tensor, axis: int, units: int, ranks: int, rank: int) -> Tensor:
    """What a rank's share of so many heads or channels reads of a tensor, one part of which several may read."""
    parts = tensor.shape[axis]
    if ranks == 1:
        return tensor
    if ranks % parts == 0:
        return tensor.narrow(axis, rank * parts // ranks, 1)
    if parts % ranks:
        tensor, parts = tensor.repeat_interleave(units // parts, axis), units
    share = parts // ranks
    return tensor.narrow(axis, rank * share, share)
