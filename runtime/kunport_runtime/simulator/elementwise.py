"""The vendor's rotations and its gated activation."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kunport_runtime.simulator.rules import require


def rotary_embedding(
    positions: Tensor, query: Tensor, key: Tensor, head_size: int, cos_sin_cache: Tensor, is_neox: bool
) -> None:
    """Turn ``query`` and ``key`` ``[tokens, heads * head_size]`` in place.

    Where:
        positions: ``[tokens]``.
        cos_sin_cache: ``[positions, rotary_dim]``: cosines, then sines, of the first ``rotary_dim`` elements of a head.
        is_neox: halves turn together; else neighbours.
    """
    _turn((query, key), cos_sin_cache[positions.long()].float(), head_size, is_neox)


def mrotary_embedding_neox(
    positions: Tensor, query: Tensor, key: Tensor, head_size: int, cos_sin_cache: Tensor, mrope_section: Sequence[int]
) -> None:
    """The same by halves, with ``positions`` ``[axes, tokens]`` of which sections of frequencies take one axis each."""
    tables = cos_sin_cache[positions.long()].float().chunk(2, dim=-1)  # cos, sin: [axes, tokens, rotary_dim / 2]
    axes = torch.repeat_interleave(torch.tensor(mrope_section))
    mixed = [table[axes, :, torch.arange(len(axes))].T for table in tables]
    _turn((query, key), torch.cat(mixed, dim=-1), head_size, True)


def swiglu(x: Tensor, y: Tensor) -> None:
    """``silu`` of the first half of each row times the second, into ``y``."""
    gate, up = x.float().chunk(2, dim=-1)
    y.copy_(gate / (1 + torch.exp(-gate)) * up)


def _turn(operands: tuple[Tensor, Tensor], table: Tensor, head_size: int, halves: bool) -> None:
    cos, sin = (each.unsqueeze(1) for each in table.chunk(2, dim=-1))  # [tokens, 1, rotary_dim / 2]
    rotary = table.shape[-1]
    for packed in operands:
        require("rotary_contiguous", packed.is_contiguous(), f"rows with strides {packed.stride()}")
        turned = packed.view(len(packed), -1, head_size)[..., :rotary]
        first = turned[..., : rotary // 2] if halves else turned[..., ::2]
        second = turned[..., rotary // 2 :] if halves else turned[..., 1::2]
        a, b = first.float(), second.float()
        a, b = a * cos - b * sin, a * sin + b * cos
        first.copy_(a)
        second.copy_(b)


OPERATORS = ("rotary_embedding", "mrotary_embedding_neox", "swiglu")
