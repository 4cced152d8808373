"""Norms that vLLM has no layer for."""

from __future__ import annotations

import torch
from torch import nn
from vllm.distributed import (
    get_tensor_model_parallel_rank,
    get_tensor_model_parallel_world_size,
    tensor_model_parallel_all_reduce,
)
from vllm.model_executor.utils import set_weight_attrs


class HeadsRMSNorm(nn.Module):
    """RMS norm over all heads of a query or key together, of which each rank holds its own.

    y = x / sqrt(mean(x^2) + eps) * w, with the mean over every rank's heads.

    Args:
        num_heads: of the whole model.
        head_dim: elements of a head.
        eps: the value added under the root.
        dtype: of the weight, as in vLLM's RMSNorm: ``torch.float32`` multiplies before the result is cast to the
            input's dtype; the default, the model's dtype, multiplies after.
    """

    def __init__(self, num_heads: int, head_dim: int, eps: float, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.ranks = get_tensor_model_parallel_world_size()
        self.shards = min(self.ranks, num_heads)  # with fewer heads than ranks, several ranks hold the same head
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(num_heads * head_dim // self.shards, dtype=dtype))
        set_weight_attrs(self.weight, {"weight_loader": self.load_shard})

    def load_shard(self, weight: nn.Parameter, loaded: torch.Tensor) -> None:
        """Copy this rank's part of the checkpoint's ``[num_heads * head_dim]``."""
        shard = get_tensor_model_parallel_rank() * self.shards // self.ranks
        weight.data.copy_(loaded.chunk(self.shards)[shard])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[tokens, this rank's heads * head_dim]`` to the same shape and dtype."""
        wide = x.float()
        mean = wide.pow(2).mean(-1, keepdim=True)
        if self.ranks > 1:
            mean = tensor_model_parallel_all_reduce(mean) / self.ranks
        normed = wide * torch.rsqrt(mean + self.eps)
        return (normed.to(self.weight.dtype) * self.weight).to(x.dtype)
