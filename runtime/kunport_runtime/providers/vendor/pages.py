"""The KV cache between our layout and the vendor's.

Ours is ``[blocks, block_size, kv_heads, dim]`` with free strides, the vendor's ``[blocks, kv_heads, block_size, dim]``
with contiguous pages: the transposed view, where memory is laid out with heads before tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor


def heads_first(cache: Tensor) -> bool:
    """Whether each page of ``cache`` has its heads before its tokens in memory, without gaps."""
    return len(cache) == 0 or cache[0].transpose(0, 1).is_contiguous()


def tokens_first(cache: Tensor) -> bool:
    """Whether each page has its tokens before its heads, without gaps."""
    return len(cache) == 0 or cache[0].is_contiguous()


def vendor_pages(
    key_cache: Tensor, value_cache: Tensor, block_tables: Tensor, seq_lens: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Both caches ``[blocks, kv_heads, block_size, dim]``, and the table ``[sequences, pages]`` int32 that fits them.

    Attention counts pages from a cache's start as if there was nothing between them. Where blocks hold keys and values
    by turns there is as much between them as they have, and entries are doubled. Out of any other layout the pages of
    this batch are copied, which is right and slow: the engine lays its caches out so that it is not needed.
    """
    steps = {_step(cache) for cache in (key_cache, value_cache)}
    if steps in ({1}, {2}):
        tables = block_tables.contiguous() if steps == {1} else block_tables * 2
        return key_cache.transpose(1, 2), value_cache.transpose(1, 2), tables
    sequences, width = block_tables.shape
    first_keys = torch.arange(width, device=block_tables.device) * key_cache.shape[1]
    # Entries beyond a sequence's pages are undefined; a page that nobody reads stands for them.
    used = torch.where(first_keys < seq_lens.unsqueeze(1), block_tables, 0).flatten().long()
    tables = torch.arange(sequences * width, dtype=torch.int32, device=block_tables.device)
    keys, values = (cache.transpose(1, 2)[used].contiguous() for cache in (key_cache, value_cache))
    return keys, values, tables.view(sequences, width)


def _step(cache: Tensor) -> int:
    """Pages from one of ours to the next: 1, 2 where each second one is another cache's, 0 for any other layout."""
    if not heads_first(cache):
        return 0
    if cache.transpose(1, 2).is_contiguous():
        return 1
    return 2 if cache.stride(0) == 2 * cache[0].numel() else 0
