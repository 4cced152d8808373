"""Layouts of checkpoints that vLLM's weight loaders do not know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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


def single_experts(
    weights: Iterable[tuple[str, torch.Tensor]], gate_up: str, down: str, *, interleaved: bool, transposed: bool
) -> Iterator[tuple[str, torch.Tensor]]:
    """Hand on experts that a checkpoint keeps in one tensor one by one, as vLLM's loader takes them from others.

    Args:
        weights: names and tensors of the checkpoint; those of other names are handed on as they are.
        gate_up: the end of the name of ``[experts, 2 * intermediate, hidden]``. Its bias, ``[experts, 2 *
            intermediate]``, has the same name and ``_bias``.
        down: the same of ``[experts, hidden, intermediate]`` and ``[experts, hidden]``.
        interleaved: the rows of gate and up alternate; otherwise those of the gate come first.
        transposed: the last two dimensions of the weights are swapped.

    Yields:
        ``EXPERTS.0.gate_proj.weight`` ``[intermediate, hidden]`` and so on, without copying.
    """
    kinds = {
        ending + suffix: (kind, parts)
        for ending, parts in ((gate_up, ("gate_proj", "up_proj")), (down, ("down_proj",)))
        for suffix, kind in (("", "weight"), ("_bias", "bias"))
    }
    for name, weight in weights:
        ending = next((ending for ending in kinds if name.endswith(ending)), None)
        if ending is None:
            yield name, weight
            continue
        kind, parts = kinds[ending]
        rows = weight.transpose(1, 2) if transposed and kind == "weight" else weight
        halves = (rows[:, 0::2], rows[:, 1::2]) if interleaved else rows.chunk(2, dim=1)
        for part, experts in zip(parts, halves if len(parts) == 2 else (rows,), strict=True):
            for number, expert in enumerate(experts):
                yield f"{name.rpartition('.')[0]}.{number}.{part}.{kind}", expert
