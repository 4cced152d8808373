"""Writes latents and rotated keys into the pages of a multi-head latent attention's cache.

A token of a page is one row, its latent and then its rotated key: ``[blocks, block_size, latent_dim + rope_dim]``.
Slots and 8 bits are as in `cache_write`; latent and key share one scale.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kunport_runtime.operators.attention.cache_write import EXACT, SLOTS, store
from kunport_runtime.operators.contract import FLOATS, FP8, Case, Contract, fills, option, reads
from kunport_runtime.operators.draw import Draw

SCALE = option("cache_scale", float, "what one unit of a cache of 8 bits stands for", default=1.0)


def reference(
    cache: torch.Tensor, latent: torch.Tensor, rope_key: torch.Tensor, slot_mapping: torch.Tensor, cache_scale: float
) -> None:
    """Both parts of a row, one after the other."""
    latent_dim = latent.shape[1]
    store(cache[..., :latent_dim], latent, slot_mapping, cache_scale)
    store(cache[..., latent_dim:], rope_key, slot_mapping, cache_scale)


def cases(draw: Draw) -> Iterator[Case]:
    """Slots in random order with some skipped; sizes of DeepSeek and smaller ones; 8 bits."""
    for tokens, latent_dim, rope_dim, block_size, dtype in (
        (5, 64, 16, 16, draw.dtype),
        (1, 512, 64, 64, draw.dtype),
        (20, 96, 32, 8, torch.float8_e4m3fn),
    ):
        blocks = 2 + tokens // block_size
        slots = draw.permutation(blocks * block_size)[:tokens]
        slots[1::3] = -1
        yield Case(
            f"{tokens} tokens, pages of {block_size}, {latent_dim} + {rope_dim}, {dtype}",
            {
                "cache": draw.normal(blocks, block_size, latent_dim + rope_dim, dtype=dtype),
                "latent": draw.normal(tokens, latent_dim, spare=rope_dim),
                "rope_key": draw.normal(tokens, rope_dim),
                "slot_mapping": slots,
                "cache_scale": 1.0 if dtype == draw.dtype else 0.25,
            },
        )


CONTRACT = Contract(
    name="mla_cache_write",
    arguments=(
        fills("cache", "blocks, block_size, latent_dim + rope_dim", "pages of rows", dtypes=FLOATS + FP8),
        reads("latent", "tokens, latent_dim", "of each token"),
        reads("rope_key", "tokens, rope_dim", "of each token, rotated", like="latent"),
        SLOTS,
        SCALE,
    ),
    reference=reference,
    cases=cases,
    tolerance=EXACT,
    dtype_of="latent",
)
