"""Rotary position embedding of queries and keys, in place.

Two elements (a, b) of a head at position p turn by the angle p times their frequency: (a cos - b sin, b cos + a sin).
``pairing="half"`` turns element i with i + rotary_dim/2 (Llama), ``"interleaved"`` 2i with 2i + 1 (GPT-J). Where
``rotary_dim`` is less than ``head_dim`` the rest of a head stays as it is. All in float32, rounded once. Su and
others, 2021, https://arxiv.org/abs/2104.09864. Without ``key`` only the query turns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import torch

from kunport_runtime.operators.contract import INDICES, Case, Contract, reads
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.limit import Limit
from kunport_runtime.operators.positions.rotation import (
    COS_SIN_CACHE,
    KEY,
    PAIRING,
    QUERY,
    TOLERANCE,
    angles,
    rotate,
)

LIMITS = (Limit("rotary_dim", maximum="head_dim", multiple_of=2),)


def reference(
    query: torch.Tensor,
    key: torch.Tensor | None,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    pairing: str,
) -> None:
    """The formula above."""
    cos, sin = cos_sin_cache[positions].chunk(2, dim=-1)
    for heads in (query, key):
        if heads is not None:
            rotate(heads, cos, sin, pairing)


def cases(draw: Draw) -> Iterator[Case]:
    """Both pairings, whole and partial heads, slices of a packed projection, no key, positions in any order."""
    forms = (
        ("half", 5, 4, 2, 64, 64, 0, torch.float32),
        ("interleaved", 7, 6, 1, 80, 80, 16, draw.dtype),
        ("half", 3, 3, 3, 96, 24, 8, torch.float32),
        ("interleaved", 1, 2, 0, 64, 32, 0, torch.float32),
        ("half", 33, 8, 2, 128, 128, 0, draw.dtype),
    )
    for pairing, tokens, heads, kv_heads, head_dim, rotary_dim, spare, cache in forms:
        yield Case(
            f"{pairing}, {rotary_dim} of {head_dim}, {tokens} tokens, {heads} and {kv_heads} heads",
            {
                "query": draw.normal(tokens, heads, head_dim, spare=spare),
                "key": draw.normal(tokens, kv_heads, head_dim, spare=spare) if kv_heads else None,
                "positions": draw.integers(tokens, high=100),
                "cos_sin_cache": angles(100, rotary_dim).to(draw.device, cache),
                "pairing": pairing,
            },
        )


CONTRACT = Contract(
    name="rotary_embedding",
    arguments=(
        QUERY,
        dataclasses.replace(KEY, optional=True),
        reads("positions", "tokens", "of each token", dtypes=INDICES),
        COS_SIN_CACHE,
        PAIRING,
    ),
    reference=reference,
    cases=cases,
    tolerance=TOLERANCE,
    dtype_of="query",
    limits=LIMITS,
)
