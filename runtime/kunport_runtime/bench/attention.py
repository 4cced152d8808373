"""Batches for paged attention, and what it should give: an exact attention, one query after the other, in float64."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kunport_runtime.providers.triton.paged_arguments import PagedArguments


@dataclass(frozen=True, slots=True)
class Batch:
    """Sequences as pairs of (queries, keys); the queries are the last of the keys."""

    lengths: Sequence[tuple[int, int]]
    page: int = 16
    heads: int = 32
    key_heads: int = 8
    size: int = 128
    value_size: int = 128
    dtype: torch.dtype = torch.bfloat16
    cache_dtype: torch.dtype | None = None
    window: int = 0
    softcap: float = 0.0
    sinks: bool = False
    alibi: bool = False

    def arguments(self, device: str, seed: int, heads_first: bool = False) -> PagedArguments:
        """Random tensors, pages in random order; what no sequence wrote is NaN in the cache, and -1 in the tables.

        `heads_first`: the cache's pages lie in memory as [KH, page, D].
        """
        random = torch.Generator(device=device).manual_seed(seed)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(shape, device=device, dtype=torch.float32, generator=random)

        needed = [-(-keys // self.page) for _, keys in self.lengths]
        order = torch.randperm(sum(needed) + 3, device=device, generator=random)[: sum(needed)].to(torch.int32)
        tables = torch.full((len(needed), max(needed) + 1), -1, dtype=torch.int32, device=device)
        caches = []
        for size in (self.size, self.value_size):
            shape = (sum(needed) + 3, self.key_heads, self.page, size)
            if not heads_first:
                shape = (shape[0], shape[2], shape[1], size)
            cache = torch.full(shape, float("nan"), device=device, dtype=self.cache_dtype or self.dtype)
            caches.append(cache.transpose(1, 2) if heads_first else cache)
        begin = 0
        for row, (count, (_, keys)) in enumerate(zip(needed, self.lengths, strict=True)):
            tables[row, :count] = order[begin : begin + count]
            for cache in caches:
                written = normal(count * self.page, self.key_heads, cache.shape[3]).to(cache.dtype)
                written[keys:] = float("nan")
                cache[order[begin : begin + count].long()] = written.view(count, self.page, *written.shape[1:])
            begin += count
        queries = torch.tensor([0] + [queries for queries, _ in self.lengths])
        tokens = int(queries.sum())
        return PagedArguments(
            out=torch.full((tokens, self.heads, self.value_size), float("nan"), device=device, dtype=self.dtype),
            query=normal(tokens, self.heads, self.size).to(self.dtype),
            key_cache=caches[0],
            value_cache=caches[1],
            block_tables=tables,
            query_start_loc=queries.cumsum(0).to(device, torch.int32),
            seq_lens=torch.tensor([keys for _, keys in self.lengths], device=device, dtype=torch.int32),
            max_query_len=int(queries.max()),
            max_seq_len=max(keys for _, keys in self.lengths),
            scale=self.size**-0.5,
            window=self.window,
            softcap=self.softcap,
            sinks=normal(self.heads) if self.sinks else None,
            alibi_slopes=2.0 ** -torch.linspace(1, 8, self.heads, device=device) if self.alibi else None,
            key_scale=0.5 if self.cache_dtype else 1.0,
            value_scale=2.0 if self.cache_dtype else 1.0,
        )

    def bytes(self) -> int:
        """The least that must move: every visible key and value once, queries and results once."""
        keys = sum(min(keys, queries - 1 + self.window) if self.window else keys for queries, keys in self.lengths)
        width = (self.cache_dtype or self.dtype).itemsize
        tokens = sum(queries for queries, _ in self.lengths)
        return (self.size + self.value_size) * (
            keys * self.key_heads * width + tokens * self.heads * self.dtype.itemsize
        )

    def operations(self) -> int:
        """Multiplications and additions of the two products, for pairs of a query and a key that it sees."""
        pairs = 0
        for queries, keys in self.lengths:
            before = keys - queries
            if self.window:
                pairs += sum(min(before + query + 1, self.window) for query in range(queries))
            else:
                pairs += queries * before + queries * (queries + 1) // 2
        return 2 * pairs * self.heads * (self.size + self.value_size)


def expected(a: PagedArguments, tokens: Sequence[int] | None = None) -> torch.Tensor:
    """What `paged_attention` should give for `tokens` (all by default): [tokens, H, DV] float64."""
    starts = a.query_start_loc.tolist()
    results = []
    for token in range(starts[-1]) if tokens is None else tokens:
        sequence = max(s for s in range(a.sequences) if starts[s] <= token and starts[s] < starts[s + 1])
        position = int(a.seq_lens[sequence]) - starts[sequence + 1] + token
        first = max(0, position - a.window + 1) if a.window else 0
        seen = torch.arange(first, position + 1, device=a.query.device)
        pages = a.block_tables[sequence, seen // a.page].long()
        keys = a.key_cache[pages, seen % a.page].double() * a.key_scale
        values = a.value_cache[pages, seen % a.page].double() * a.value_scale
        query = a.query[token].double().view(a.key_heads, a.group, -1)
        scores = torch.einsum("hgd,khd->hgk", query, keys).flatten(0, 1) * a.scale
        if a.softcap:
            scores = a.softcap * torch.tanh(scores / a.softcap)
        if a.alibi_slopes is not None:
            scores += a.alibi_slopes.double()[:, None] * (seen - position)
        if a.sinks is not None:
            scores = torch.cat([scores, a.sinks.double()[:, None]], 1)
        weights = scores.softmax(1)[:, : len(seen)].view(a.key_heads, a.group, -1)
        results.append(torch.einsum("hgk,khd->hgd", weights, values).flatten(0, 1))
    return torch.stack(results)
