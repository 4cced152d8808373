"""Multi-head latent attention of a ragged batch over the pages of its cache, in the absorbed form.

Keys and values are both made from one latent per token, so that the products with their matrices can be taken out:
into the query before (``query_latent``), and behind the operator after. What is left is attention with a single KV
head, whose keys are latent and rotated key together and whose values are the latent:

    score = scale * (query_latent . latent + query_rope . rope_key)
    out   = sum(softmax(score) * latent)

Batches, masks, and what is undefined are as in `paged_attention`, the cache as in `mla_cache_write`. DeepSeek-AI,
2024, https://arxiv.org/abs/2405.04434.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kunport_runtime.operators.attention.mla_cache_write import SCALE
from kunport_runtime.operators.attention.paged_attention import gather, visible
from kunport_runtime.operators.attention.paging import DECODE, MIXED, ON_HOST, PAGING, PREFILL, TOLERANCE, Batch
from kunport_runtime.operators.contract import FLOATS, FP8, Case, Contract, reads, writes
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.numerics import wide


def reference(
    out: torch.Tensor,
    query_latent: torch.Tensor,
    query_rope: torch.Tensor,
    cache: torch.Tensor,
    block_tables: torch.Tensor,
    query_start_loc: torch.Tensor,
    seq_lens: torch.Tensor,
    max_query_len: int,
    max_seq_len: int,
    scale: float,
    cache_scale: float,
    query_start_loc_cpu: torch.Tensor | None,
    seq_lens_cpu: torch.Tensor | None,
) -> None:
    """One sequence after the other, with the formulas above."""
    starts, latent_dim = query_start_loc.tolist(), query_latent.shape[-1]
    for start, end, keys, table in zip(starts[:-1], starts[1:], seq_lens.tolist(), block_tables, strict=True):
        if start == end:
            continue
        query = torch.cat((wide(query_latent[start:end]), wide(query_rope[start:end])), dim=-1).transpose(0, 1)
        rows = gather(cache, table, keys).mul(cache_scale).to(query.dtype)
        scores = query @ rows.T * scale  # [heads, queries, keys]
        scores = scores.masked_fill(~visible(end - start, keys, 0, query.device), -torch.inf)
        out[start:end] = (scores.softmax(-1) @ rows[:, :latent_dim]).transpose(0, 1).to(out.dtype)


def _case(
    draw: Draw, batch: Batch, heads: int, latent_dim: int, rope_dim: int, cache: torch.dtype | None = None
) -> Case:
    paging = batch.arguments(draw)
    pages = draw.normal(batch.blocks, batch.block_size, latent_dim + rope_dim, dtype=cache)
    batch.poison_unused(pages, paging["block_tables"])  # type: ignore[arg-type]
    return Case(
        f"{batch.label}, {heads} heads of {latent_dim} + {rope_dim}{', 8 bits' if cache else ''}",
        {
            "out": draw.poison(batch.tokens + 1, heads, latent_dim),
            "query_latent": draw.normal(batch.tokens + 1, heads, latent_dim),
            "query_rope": draw.normal(batch.tokens + 1, heads, rope_dim, spare=latent_dim),
            "cache": pages,
            **paging,
            "scale": (latent_dim + rope_dim) ** -0.5,
            "cache_scale": 0.5 if cache else 1.0,
        },
    )


def cases(draw: Draw) -> Iterator[Case]:
    """Each kind of batch, sizes of DeepSeek and smaller ones, few and many heads, 8 bits."""
    yield _case(draw, DECODE, 4, 64, 16)
    yield _case(draw, PREFILL, 2, 128, 64)
    yield _case(draw, MIXED, 16, 512, 64)
    yield _case(draw, MIXED, 3, 96, 32, torch.float8_e4m3fn)


CONTRACT = Contract(
    name="mla_attention",
    arguments=(
        writes("out", "tokens, heads, latent_dim", "the weighted means of latents", like="query_latent"),
        reads("query_latent", "tokens, heads, latent_dim", "the query's part for the latent, absorbed"),
        reads("query_rope", "tokens, heads, rope_dim", "its rotated part", like="query_latent"),
        reads("cache", "blocks, block_size, latent_dim + rope_dim", "pages of rows", dtypes=FLOATS + FP8),
        *PAGING,
        SCALE,
        *ON_HOST,
    ),
    reference=reference,
    cases=cases,
    tolerance=TOLERANCE,
    dtype_of="query_latent",
)
