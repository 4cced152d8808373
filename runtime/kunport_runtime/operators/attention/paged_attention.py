"""Attention of a ragged batch over the pages of a KV cache: prefill, decode and both at once.

Sequence s has the queries from ``query_start_loc[s]`` up to ``query_start_loc[s + 1]``, the last of its
``seq_lens[s]`` tokens; their keys and values are in the cache already (`cache_write`, which also says why it is laid
out so). A query at position p of its sequence sees the keys k with ``k <= p``, and with a window those with ``k > p -
window``:

    score  = scale * q . k                        query head h reads KV head h // (heads / kv_heads)
    score  = softcap * tanh(score / softcap)      where there is a softcap
    score += alibi_slopes[h] * (k - p)            where there are slopes
    out    = sum(exp(score) * v) / (sum(exp(score)) + exp(sinks[h]))

Scores and sums are float32; the weights may be rounded to the dtype of ``query`` before they meet the values. A
sequence may have no queries. Rows of ``out`` from ``query_start_loc[-1]`` on stay as they are, and cache slots that
hold no key, as well as table entries beyond a sequence's pages, are undefined: they may hold anything, NaN included.
Kwon and others, 2023, https://arxiv.org/abs/2309.06180; sinks: Xiao and others, 2023,
https://arxiv.org/abs/2309.17453; ALiBi: Press and others, 2021, https://arxiv.org/abs/2108.12409.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kunport_runtime.operators.attention.cache_write import SCALES
from kunport_runtime.operators.attention.paging import DECODE, MIXED, ON_HOST, PAGING, PREFILL, TOLERANCE, Batch
from kunport_runtime.operators.contract import FLOATS, FP8, Case, Contract, option, reads, writes
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.limit import Limit
from kunport_runtime.operators.numerics import wide


def gather(cache: torch.Tensor, table: torch.Tensor, length: int) -> torch.Tensor:
    """The first ``length`` rows of a sequence out of a cache ``[blocks, block_size, ...]``, in float32."""
    block_size = cache.shape[1]
    pages = table[: -(-length // block_size)].long()
    # Indexing has no kernels for 8-bit floats.
    rows = cache.view(torch.uint8)[pages].view(cache.dtype) if cache.element_size() == 1 else cache[pages]
    return wide(rows.flatten(0, 1)[:length])


def visible(queries: int, keys: int, window: int, device: torch.device) -> torch.Tensor:
    """Which key each of the last ``queries`` positions sees: ``[queries, keys]``, bool."""
    position = torch.arange(keys - queries, keys, device=device).unsqueeze(1)
    key = torch.arange(keys, device=device)
    return (key <= position) & (key > position - window if window else key <= position)


def reference(
    out: torch.Tensor,
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    query_start_loc: torch.Tensor,
    seq_lens: torch.Tensor,
    max_query_len: int,
    max_seq_len: int,
    scale: float,
    window: int,
    softcap: float,
    sinks: torch.Tensor | None,
    alibi_slopes: torch.Tensor | None,
    key_scale: float,
    value_scale: float,
    query_start_loc_cpu: torch.Tensor | None,
    seq_lens_cpu: torch.Tensor | None,
) -> None:
    """One sequence after the other, with the formulas above."""
    starts, lengths = query_start_loc.tolist(), seq_lens.tolist()
    heads, group = query.shape[1], query.shape[1] // key_cache.shape[2]
    for start, end, keys, table in zip(starts[:-1], starts[1:], lengths, block_tables, strict=True):
        if start == end:
            continue
        q = wide(query[start:end]).transpose(0, 1)
        k, v = (
            gather(cache, table, keys).mul(factor).repeat_interleave(group, dim=1).transpose(0, 1).to(q.dtype)
            for cache, factor in ((key_cache, key_scale), (value_cache, value_scale))
        )
        scores = q @ k.transpose(-1, -2) * scale  # [heads, queries, keys]
        if softcap:
            scores = softcap * torch.tanh(scores / softcap)
        if alibi_slopes is not None:
            position = torch.arange(keys - (end - start), keys, device=q.device).unsqueeze(1)
            distance = torch.arange(keys, device=q.device) - position
            scores = scores + alibi_slopes.to(q.dtype).view(-1, 1, 1) * distance
        scores = scores.masked_fill(~visible(end - start, keys, window, q.device), -torch.inf)
        if sinks is not None:
            sink = sinks.to(q.dtype).view(heads, 1, 1).expand(-1, end - start, 1)
            weights = torch.cat((scores, sink), dim=-1).softmax(-1)[..., :-1]
        else:
            weights = scores.softmax(-1)
        out[start:end] = (weights @ v).transpose(0, 1).to(out.dtype)


def _case(
    draw: Draw,
    batch: Batch,
    label: str,
    *,
    heads: int = 4,
    kv_heads: int = 2,
    head_dim: int = 64,
    value_dim: int = 0,
    cache: torch.dtype | None = None,
    transposed: bool = False,
    padding: int = 0,
    window: int = 0,
    softcap: float = 0.0,
    sinks: bool = False,
    alibi: bool = False,
) -> Case:
    paging = batch.arguments(draw)
    caches = []
    for size in (head_dim, value_dim or head_dim):
        shape = (kv_heads, batch.block_size) if transposed else (batch.block_size, kv_heads)
        pages = draw.normal(batch.blocks, *shape, size, dtype=cache)
        pages = pages.transpose(1, 2) if transposed else pages
        batch.poison_unused(pages, paging["block_tables"])  # type: ignore[arg-type]
        caches.append(pages)
    tokens = batch.tokens + padding
    return Case(
        f"{batch.label}, {label}, {heads} and {kv_heads} heads of {head_dim}, pages of {batch.block_size}",
        {
            "out": draw.poison(tokens, heads, value_dim or head_dim),
            "query": draw.normal(tokens, heads, head_dim, spare=head_dim if padding else 0),
            "key_cache": caches[0],
            "value_cache": caches[1],
            **paging,
            "scale": head_dim**-0.5,
            "window": window,
            "softcap": softcap,
            "sinks": draw.normal(heads) if sinks else None,
            "alibi_slopes": draw.uniform(heads, dtype=torch.float32) if alibi else None,
            "key_scale": 0.5 if cache else 1.0,
            "value_scale": 1.25 if cache else 1.0,
        },
    )


def cases(draw: Draw) -> Iterator[Case]:
    """Each kind of batch plain, then each variant, odd head sizes, both layouts of the cache, and all at once."""
    yield _case(draw, DECODE, "plain")
    yield _case(draw, PREFILL, "plain")
    yield _case(draw, MIXED, "plain, padded", padding=3)
    yield _case(draw, DECODE, "one KV head, heads before tokens", heads=8, kv_heads=1, head_dim=128, transposed=True)
    yield _case(draw, MIXED, "no groups, other values", heads=3, kv_heads=3, head_dim=96, value_dim=80)
    yield _case(draw, MIXED, "window", window=6)
    yield _case(draw, DECODE, "window of one", window=1, head_dim=80)
    yield _case(draw, MIXED, "softcap", softcap=2.0)
    yield _case(draw, MIXED, "sinks", sinks=True)
    yield _case(draw, MIXED, "ALiBi", alibi=True)
    yield _case(draw, DECODE, "ALiBi", alibi=True)
    yield _case(draw, MIXED, "8 bits (e4m3)", cache=torch.float8_e4m3fn)
    yield _case(draw, DECODE, "8 bits (e5m2)", cache=torch.float8_e5m2, head_dim=128)
    yield _case(draw, MIXED, "window, softcap and sinks", window=5, softcap=5.0, sinks=True, transposed=True)


CONTRACT = Contract(
    name="paged_attention",
    arguments=(
        writes("out", "tokens, heads, value_dim", "the weighted means of values", like="query"),
        reads("query", "tokens, heads, head_dim", "of all sequences, one after the other"),
        reads("key_cache", "blocks, block_size, kv_heads, head_dim", "pages of keys", dtypes=FLOATS + FP8),
        reads("value_cache", "blocks, block_size, kv_heads, value_dim", "pages of values", dtypes=FLOATS + FP8),
        *PAGING,
        option("window", int, "keys that a query sees, its own included; 0: all", default=0),
        option("softcap", float, "the bound of the scores; 0: none", default=0.0),
        reads("sinks", "heads", "a further score in the denominator", optional=True),
        reads("alibi_slopes", "heads", "the bias of a step of distance", dtypes=("float32",), optional=True),
        *SCALES,
        *ON_HOST,
    ),
    reference=reference,
    cases=cases,
    tolerance=TOLERANCE,
    dtype_of="query",
    limits=(Limit("heads", multiple_of="kv_heads", why="each KV head serves as many query heads"),),
)
