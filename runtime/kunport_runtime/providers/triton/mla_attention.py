"""Multi-head latent attention, absorbed, of any ragged batch over a paged cache whose rows serve all heads.

A program takes ROWS pairs of token and head of one sequence, heads fastest: all of them read the same rows of the
cache, each once, as key and as value.
"""

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton import tuning
from kunport_runtime.providers.triton.pages import offsets, pages
from kunport_runtime.providers.triton.softmax import HIDDEN, LOG2E, LOWEST, fold, widened
from kunport_runtime.providers.triton.tiles import owner

# `rows`: pairs of token and head of a program; `block`: rows of the cache a step. Of 2 bytes; half as many of 4.
DEFAULTS: tuning.Config = {"rows": 16, "block": 32, "warps": 4, "stages": 2}


@triton.jit(do_not_specialize=["table_stride", "sequences"])
def _mla_attention(
    out, query_latent, query_rope, cache, tables, starts, lengths, factor, cache_scale, sequences, table_stride,
    out_token_stride, out_head_stride, latent_token_stride, latent_head_stride, rope_token_stride, rope_head_stride,
    page_stride, slot_stride,
    HEADS: tl.constexpr, LATENT: tl.constexpr, LATENT_PAD: tl.constexpr, ROPE: tl.constexpr, ROPE_PAD: tl.constexpr,
    PAGE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The last tiles of sequences, which see most keys, come first."""
    number = tl.num_programs(0) - 1 - tl.program_id(0)
    sequence, first, end, begin = owner(starts, sequences, number, ROWS, HEADS)
    if (begin < first) | (begin >= end):
        return
    row = begin + tl.arange(0, ROWS)
    live = row < end
    token = row // HEADS
    head = row % HEADS
    length = tl.load(lengths + sequence)
    before = length - end // HEADS  # the position of token 0, were it the sequence's
    asking = before + token
    seen = before + (tl.minimum(begin + ROWS, end) - 1) // HEADS + 1

    latents = tl.arange(0, LATENT_PAD)
    ropes = tl.arange(0, ROPE_PAD)
    rows = token.to(tl.int64)
    q_latent = tl.load(
        query_latent + (rows * latent_token_stride + head * latent_head_stride)[:, None] + latents[None, :],
        mask=live[:, None] & (latents < LATENT)[None, :],
        other=0.0,
    )
    q_rope = tl.load(
        query_rope + (rows * rope_token_stride + head * rope_head_stride)[:, None] + ropes[None, :],
        mask=live[:, None] & (ropes < ROPE)[None, :],
        other=0.0,
    )
    peak = tl.full([ROWS], LOWEST, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    accumulator = tl.zeros([ROWS, LATENT_PAD], tl.float32)
    table = tables + sequence.to(tl.int64) * table_stride
    for start in range(0, seen, BLOCK):
        start = tl.multiple_of(start, BLOCK)
        position = start + tl.arange(0, BLOCK)
        page = pages(table, start, (length - 1) // PAGE, PAGE, BLOCK, True, True)
        inside = (position < seen)[:, None]
        latent = tl.load(
            cache + offsets(page, start, page_stride, slot_stride, latents, PAGE, BLOCK),
            mask=inside & (latents < LATENT)[None, :],
            other=0.0,
        )
        rope = tl.load(
            cache + LATENT + offsets(page, start, page_stride, slot_stride, ropes, PAGE, BLOCK),
            mask=inside & (ropes < ROPE)[None, :],
            other=0.0,
        )
        k_latent = widened(latent, q_latent.dtype)
        k_rope = widened(rope, q_latent.dtype)
        scores = tl.dot(q_latent, tl.trans(k_latent), input_precision="ieee")
        scores = tl.dot(q_rope, tl.trans(k_rope), scores, input_precision="ieee")
        scores = tl.where(position[None, :] > asking[:, None], HIDDEN, scores)
        accumulator, total, peak = fold(scores, k_latent, accumulator, total, peak, factor)

    result = accumulator * (cache_scale / total)[:, None]
    place = (rows * out_token_stride + head * out_head_stride)[:, None] + latents[None, :]
    tl.store(out + place, result.to(out.dtype.element_ty), mask=live[:, None] & (latents < LATENT)[None, :])


def mla_attention(
    *,
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
    cache_scale: float = 1.0,
    query_start_loc_cpu: torch.Tensor | None = None,
    seq_lens_cpu: torch.Tensor | None = None,
) -> None:
    """Causal attention of query_latent [T, H, latent_dim] and query_rope [T, H, rope_dim] into out [T, H, latent_dim].

    cache [pages, page, latent_dim + rope_dim], of the query's dtype or fp8 (value / cache_scale); the batch is that of
    `paged_attention`. The `_cpu` lengths are not needed here.
    """
    tokens, heads, latent_dim = query_latent.shape
    sequences = seq_lens.shape[0]
    if not tokens or not sequences:
        return
    config = tuning.lookup(
        "mla_attention", cache.dtype, out.device, DEFAULTS,
        rows=tokens * heads // sequences, keys=max_seq_len, page=cache.shape[1],
    )  # fmt: skip
    block = max(16, config["block"] * 2 // max(2, out.element_size()))
    rope_dim = query_rope.shape[2]
    _mla_attention[(tokens * heads // config["rows"] + sequences,)](
        out, query_latent, query_rope, cache, block_tables, query_start_loc, seq_lens,
        scale * cache_scale * LOG2E.value, cache_scale, sequences, block_tables.stride(0),
        *out.stride()[:2], *query_latent.stride()[:2], *query_rope.stride()[:2], *cache.stride()[:2],
        HEADS=heads, LATENT=latent_dim, LATENT_PAD=max(16, triton.next_power_of_2(latent_dim)),
        ROPE=rope_dim, ROPE_PAD=max(16, triton.next_power_of_2(rope_dim)), PAGE=cache.shape[1],
        ROWS=config["rows"], BLOCK=block, num_warps=config["warps"], num_stages=config["stages"],
    )  # fmt: skip
