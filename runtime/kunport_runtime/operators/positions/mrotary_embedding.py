"""Rotary position embedding where a token has a position on several axes (time, height, width), in place.

Each frequency takes its position from one axis. ``sections`` says how many frequencies an axis has. With
``order="blocks"`` the first ``sections[0]`` frequencies are the first axis's, and so on (Qwen2-VL). With
``"interleaved"`` frequency i is that of axis ``i % axes`` as long as ``i < axes * sections[i % axes]``, else of the
first (Qwen3-VL). The rotation is that of `rotary_embedding`. Wang and others, 2024, https://arxiv.org/abs/2409.12191.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import torch

from kunport_runtime.operators.contract import INDICES, Case, Contract, option, reads
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.positions.rotary_embedding import LIMITS
from kunport_runtime.operators.positions.rotation import (
    COS_SIN_CACHE,
    KEY,
    PAIRING,
    QUERY,
    TOLERANCE,
    angles,
    rotate,
)


def axes_of_frequencies(sections: tuple[int, ...], order: str) -> list[int]:
    """The axis that each frequency takes its position from."""
    if order == "blocks":
        return [axis for axis, count in enumerate(sections) for _ in range(count)]
    axes = len(sections)
    return [i % axes if i < axes * sections[i % axes] else 0 for i in range(sum(sections))]


def reference(
    query: torch.Tensor,
    key: torch.Tensor | None,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    sections: tuple[int, ...],
    pairing: str,
    order: str,
) -> None:
    """The cosines of every axis, of which each frequency takes its own."""
    axes = torch.tensor(axes_of_frequencies(sections, order), device=positions.device)
    own = axes.expand(1, positions.shape[1], -1)
    cos, sin = (each.gather(0, own)[0] for each in cos_sin_cache[positions].chunk(2, dim=-1))
    for heads in (query, key):
        if heads is not None:
            rotate(heads, cos, sin, pairing)


def cases(draw: Draw) -> Iterator[Case]:
    """Both orders, both pairings, whole and partial heads."""
    forms = (
        ("blocks", "half", 4, 64, (8, 12, 12)),
        ("interleaved", "half", 7, 80, (16, 8, 8)),
        ("blocks", "interleaved", 1, 64, (4, 8)),
    )
    for order, pairing, tokens, head_dim, sections in forms:
        yield Case(
            f"{order}, {pairing}, sections {sections} in {head_dim}",
            {
                "query": draw.normal(tokens, 4, head_dim, spare=8),
                "key": draw.normal(tokens, 2, head_dim),
                "positions": draw.integers(len(sections), tokens, high=64),
                "cos_sin_cache": angles(64, 2 * sum(sections)).to(draw.device),
                "sections": sections,
                "pairing": pairing,
                "order": order,
            },
        )


CONTRACT = Contract(
    name="mrotary_embedding",
    arguments=(
        QUERY,
        dataclasses.replace(KEY, optional=True),
        reads("positions", "axes, tokens", "of each token on each axis", dtypes=INDICES),
        COS_SIN_CACHE,
        option("sections", tuple, "frequencies of each axis; their sum is rotary_dim/2"),
        PAIRING,
        option("order", str, "of the axes among frequencies", default="blocks", choices=("blocks", "interleaved")),
    ),
    reference=reference,
    cases=cases,
    tolerance=TOLERANCE,
    dtype_of="query",
    limits=LIMITS,
)
