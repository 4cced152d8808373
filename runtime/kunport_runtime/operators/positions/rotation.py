"""The rotation that the operators of this folder share."""

from __future__ import annotations

import torch

from kunport_runtime.operators.contract import option, reads, updates
from kunport_runtime.operators.numerics import wide
from kunport_runtime.operators.tolerance import rounded

QUERY = updates("query", "tokens, heads, head_dim", "turned in place")
KEY = updates("key", "tokens, kv_heads, head_dim", "turned in place", like="query")
COS_SIN_CACHE = reads(
    "cos_sin_cache",
    "max_position, rotary_dim",
    "of a position: rotary_dim/2 cosines, then as many sines",
    contiguous=True,
)
PAIRING = option("pairing", str, "which elements turn together", default="half", choices=("half", "interleaved"))

# One rounding on each side, of sums of two products.
TOLERANCE = rounded(2, scale=2.0)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, pairing: str) -> None:
    """Turn the first elements of each head in place.

    Args:
        x: ``[tokens, heads, head_dim]``.
        cos: ``[tokens, rotary_dim / 2]``.
        sin: the same.
        pairing: ``half`` pairs element i with i + rotary_dim / 2, ``interleaved`` 2i with 2i + 1.
    """
    rotary_dim = 2 * cos.shape[-1]
    cos, sin = wide(cos).unsqueeze(1), wide(sin).unsqueeze(1)
    turned = x[..., :rotary_dim]
    first, second = turned.chunk(2, dim=-1) if pairing == "half" else (turned[..., 0::2], turned[..., 1::2])
    a, b = wide(first), wide(second)
    a, b = a * cos - b * sin, b * cos + a * sin
    first.copy_(a)
    second.copy_(b)


def angles(max_position: int, rotary_dim: int, base: float = 10000.0) -> torch.Tensor:
    """Cosines and sines ``[max_position, rotary_dim]``, float32, of the frequencies ``base^(-2i/rotary_dim)``."""
    frequencies = base ** (-torch.arange(0, rotary_dim, 2, dtype=torch.float64) / rotary_dim)
    angle = torch.arange(max_position, dtype=torch.float64).unsqueeze(1) * frequencies
    return torch.cat((angle.cos(), angle.sin()), dim=-1).float()
