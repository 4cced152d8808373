"""Writes keys and values into the pages of the KV cache.

The cache is two tensors, ``[blocks, block_size, kv_heads, head_dim]`` for keys and ``[..., value_dim]`` for values,
of which only the last stride is fixed. A page is a run of tokens, and a token of a page is one contiguous row of all
its heads: a write is one contiguous store a token, a kernel for all KV heads of a page reads one contiguous piece,
and one for a single head reads rows of ``head_dim`` elements (256 bytes in bfloat16 at 128, whole sectors of any
memory). The layout of the Kunlun operators, ``(2, blocks, kv_heads, block_size, head_dim)``, is the transposed view
of its two halves, so that nothing is copied between providers.

``slot = block * block_size + offset``; a negative slot is skipped, and no two are equal. A cache of 8 bits holds the
nearest number to ``value / scale``, and the largest finite one beyond its range.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kunport_runtime.operators.contract import FLOATS, FP8, INDICES, Case, Contract, fills, option, reads
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.numerics import to_fp8, wide
from kunport_runtime.operators.tolerance import Tolerance

CACHES = (
    fills("key_cache", "blocks, block_size, kv_heads, head_dim", "pages of keys", dtypes=FLOATS + FP8),
    fills("value_cache", "blocks, block_size, kv_heads, value_dim", "pages of values", dtypes=FLOATS + FP8),
)
SLOTS = reads("slot_mapping", "tokens", "where each token goes; negative: nowhere", dtypes=INDICES)
SCALES = (
    option("key_scale", float, "what one unit of a key cache of 8 bits stands for", default=1.0),
    option("value_scale", float, "the same of values", default=1.0),
)


def store(cache: torch.Tensor, rows: torch.Tensor, slots: torch.Tensor, scale: float) -> None:
    """Write rows ``[tokens, ...]`` into a cache ``[blocks, block_size, ...]``."""
    kept = slots >= 0
    blocks, offsets = slots[kept] // cache.shape[1], slots[kept] % cache.shape[1]
    rows = rows[kept]
    if cache.dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        # Indexing has no kernels for 8-bit floats; bytes are bytes.
        stored = to_fp8(wide(rows) / scale, cache.dtype).view(torch.uint8)
        cache.view(torch.uint8)[blocks, offsets] = stored
    else:
        cache[blocks, offsets] = rows.to(cache.dtype)


def reference(
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    slot_mapping: torch.Tensor,
    key_scale: float,
    value_scale: float,
) -> None:
    """Both caches, one after the other."""
    store(key_cache, key, slot_mapping, key_scale)
    store(value_cache, value, slot_mapping, value_scale)


def draw_arguments(
    draw: Draw, tokens: int, kv_heads: int, head_dim: int, value_dim: int, block_size: int, dtype: torch.dtype
) -> dict[str, object]:
    """Arguments whose slots are in random order, every third of them negative."""
    blocks = 3 + tokens // block_size
    slots = draw.permutation(blocks * block_size)[:tokens]
    slots[2::3] = -1
    eight_bits = dtype in (torch.float8_e4m3fn, torch.float8_e5m2)
    return {
        "key_cache": draw.normal(blocks, block_size, kv_heads, head_dim, dtype=dtype),
        # As the vendor lays it out: heads before tokens.
        "value_cache": draw.normal(blocks, kv_heads, block_size, value_dim, dtype=dtype).transpose(1, 2),
        "key": draw.normal(tokens, kv_heads, head_dim, scale=2.0, spare=8),
        "value": draw.normal(tokens, kv_heads, value_dim, scale=2.0),
        "slot_mapping": slots,
        "key_scale": 0.5 if eight_bits else 1.0,
        "value_scale": 0.004 if eight_bits else 1.0,  # beyond the range of float8_e4m3fn
    }


def cases(draw: Draw) -> Iterator[Case]:
    """Pages of 16, 1 and 24, both layouts, other sizes of values, caches of 8 bits."""
    for tokens, kv_heads, head_dim, value_dim, block_size, dtype in (
        (7, 2, 64, 64, 16, draw.dtype),
        (5, 3, 80, 96, 1, draw.dtype),
        (1, 1, 128, 128, 24, torch.float8_e4m3fn),
        (40, 4, 96, 96, 16, torch.float8_e5m2),
    ):
        yield Case(
            f"{tokens} tokens, pages of {block_size}, {kv_heads} heads of {head_dim} and {value_dim}, {dtype}",
            draw_arguments(draw, tokens, kv_heads, head_dim, value_dim, block_size, dtype),
        )


_ONE_STEP = "what is stored is the one nearest number: equal, or in 8 bits one step apart where the quotient is a tie"
EXACT = {dtype: Tolerance(0.0, 0.0, _ONE_STEP) for dtype in FLOATS}

CONTRACT = Contract(
    name="cache_write",
    arguments=(
        *CACHES,
        reads("key", "tokens, kv_heads, head_dim", "of each token"),
        reads("value", "tokens, kv_heads, value_dim", "of each token", like="key"),
        SLOTS,
        *SCALES,
    ),
    reference=reference,
    cases=cases,
    tolerance=EXACT,
    dtype_of="key",
)
