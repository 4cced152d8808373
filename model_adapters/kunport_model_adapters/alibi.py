"""Slopes of ALiBi (arXiv:2108.12409), a bias on attention scores that grows with the key's position."""

from __future__ import annotations

import math

from vllm.distributed import get_tensor_model_parallel_rank, get_tensor_model_parallel_world_size


def alibi_slopes(num_heads: int, largest: float = 8.0) -> list[float]:
    """The slopes of this rank's heads.

    Of a power of two of heads, head i has 2 ** (-largest * (i + 1) / num_heads). Of another number, the slopes are
    those of the next power of two: every second one, from the second on, then the rest, from the first on.

    Args:
        num_heads: of the whole model.
        largest: the exponent of the smallest slope.
    """
    power: int = 2 ** math.ceil(math.log2(num_heads))
    slopes = [2 ** (-largest * (head + 1) / power) for head in range(power)]
    if power != num_heads:
        slopes = (slopes[1::2] + slopes[::2])[:num_heads]
    ranks = get_tensor_model_parallel_world_size()
    first = get_tensor_model_parallel_rank() * num_heads // ranks
    return slopes[first : first + num_heads // ranks]
