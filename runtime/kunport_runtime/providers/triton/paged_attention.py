"""Paged attention over a ragged batch: sequences with one query go to the decode kernel, the others to prefill's."""

import torch

from kunport_runtime.providers.triton.paged_arguments import PagedArguments
from kunport_runtime.providers.triton.paged_decode import decode
from kunport_runtime.providers.triton.paged_prefill import prefill


def paged_attention(
    *,
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
    window: int = 0,
    softcap: float = 0.0,
    sinks: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    key_scale: float = 1.0,
    value_scale: float = 1.0,
    query_start_loc_cpu: torch.Tensor | None = None,
    seq_lens_cpu: torch.Tensor | None = None,
) -> None:
    """Causal attention of `query` [T, H, D] over a paged cache into `out` [T, H, DV].

    key_cache [pages, page, KH, D] and value_cache [pages, page, KH, DV], of query's dtype or fp8 (value / scale);
    block_tables [B, pages of a sequence] int32, query_start_loc [B + 1] int32, seq_lens [B] int32, which count the
    queries too. A query at position p sees keys k with p - window < k <= p (window 0: all k <= p); score = scale * q.k,
    then softcap * tanh(score / softcap), then + alibi_slopes[h] * (k - p); sinks [H] is one more logit of each head in
    the denominator. Nothing beyond a sequence's end is read as a number. The `_cpu` lengths are not needed here.
    """
    if query.shape[0] == 0:
        return
    arguments = PagedArguments(
        out=out, query=query, key_cache=key_cache, value_cache=value_cache, block_tables=block_tables,
        query_start_loc=query_start_loc, seq_lens=seq_lens, max_query_len=max_query_len, max_seq_len=max_seq_len,
        scale=scale, window=window, softcap=softcap, sinks=sinks, alibi_slopes=alibi_slopes,
        key_scale=key_scale, value_scale=value_scale,
    )  # fmt: skip
    # A batch with as many tokens as the longest sequences would give has no sequence of one query (but where all have).
    ragged = query.shape[0] < seq_lens.shape[0] * max_query_len
    if max_query_len == 1 or ragged:
        decode(arguments)
    if max_query_len > 1:
        prefill(arguments, skip_single=ragged)
