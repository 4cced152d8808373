"""Pages of a cache as the vendor's attention finds them: one after the other from the start, whatever the strides."""

from __future__ import annotations

import torch
from torch import Tensor

from kunport_runtime.simulator.rules import require


def pages_from_start(cache: Tensor) -> tuple[Tensor, int]:
    """All pages from the cache's first to the end of its memory, and how many of them lie between two of its own.

    Args:
        cache: ``[blocks, a, b, dim]``, the last three contiguous.
    """
    page = cache[0].numel()
    require("cache_layout", cache[0].is_contiguous(), f"a page has strides {cache.stride()[1:]}")
    step = 1 if cache.is_contiguous() else cache.stride(0) // page
    require("cache_layout", step in (1, 2), f"pages are {cache.stride(0)} elements apart, and of {page}")
    elements = cache.untyped_storage().nbytes() // cache.element_size() - cache.storage_offset()
    count = elements // page
    inner = (cache.shape[2] * cache.shape[3], cache.shape[3], 1)
    return cache.as_strided((count, *cache.shape[1:]), (page, *inner)), step


def rows_of(cache: Tensor, tables: Tensor | None, index: int, length: int, sequences: int) -> Tensor:
    """The first ``length`` rows ``[length, kv_heads, dim]`` of a sequence."""
    require(
        "tables_form",
        tables is not None and tables.dtype == torch.int32 and tables.is_contiguous() and len(tables) == sequences,
        f"the table is {None if tables is None else (list(tables.shape), tables.dtype, tables.stride())}",
    )
    assert tables is not None  # for the type checker
    pages, step = pages_from_start(cache)
    count = -(-length // cache.shape[2])
    require("tables_form", count <= tables.shape[1], f"{length} keys in {tables.shape[1]} pages")
    used = tables[index, :count].long()
    require("tables_form", bool(((used >= 0) & (used < len(pages))).all()), f"pages {used.tolist()} of {len(pages)}")
    require("tables_doubled", bool((used % step == 0).all()), f"pages {used.tolist()} are not doubled")
    return pages[used].transpose(1, 2).flatten(0, 1)[:length]
