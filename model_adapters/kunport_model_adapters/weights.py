"""Layouts of checkpoints that vLLM's weight loaders do not know."""

from __future__ import annotations

import torch


def ungroup_qkv(weight: torch.Tensor, num_heads: int, num_kv_heads: int) -> torch.Tensor:
    """Sort a fused projection's rows from groups into query, key and value.

    Some checkpoints (GPT-NeoX, BLOOM, Falcon) keep the rows of a group together: the query heads that share a
    key-value head, then that key, then that value. ``QKVParallelLinear`` takes all queries, all keys, all values.

    Args:
        weight: ``[num_kv_heads * (num_heads / num_kv_heads + 2) * head_size, ...]``, a weight or a bias.
        num_heads: query heads of the whole model, not of a rank.
        num_kv_heads: key-value heads of the whole model.

    Returns:
        The same shape and dtype, rows ``[queries; keys; values]``.
    """
    queries = num_heads // num_kv_heads
    grouped = weight.reshape(num_kv_heads, queries + 2, -1, *weight.shape[1:])
    return torch.cat([grouped[:, :-2].flatten(0, 2), grouped[:, -2].flatten(0, 1), grouped[:, -1].flatten(0, 1)])
