"""What a layer keeps of one sequence."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from vllm.config import VllmConfig
from vllm.utils.torch_utils import STR_DTYPE_TO_TORCH_DTYPE


@dataclass(frozen=True, slots=True)
class State:
    """One tensor for each sequence.

    Attributes:
        shape: of one sequence's.
        sums: whether it adds up over tokens, and is kept in float32 unless vLLM is told otherwise
            (``--mamba-ssm-cache-dtype``); what holds inputs is kept in the model's dtype (``--mamba-cache-dtype``).
    """

    shape: tuple[int, ...]
    sums: bool

    def dtype(self, vllm_config: VllmConfig) -> torch.dtype:
        """In which it is kept."""
        cache = vllm_config.cache_config
        named = cache.mamba_ssm_cache_dtype if self.sums else cache.mamba_cache_dtype
        if named != "auto":
            return STR_DTYPE_TO_TORCH_DTYPE[named]
        return torch.float32 if self.sums else vllm_config.model_config.dtype
