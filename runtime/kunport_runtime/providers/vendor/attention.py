"""Attention over pages, and the writing of pages.

The vendor has two operators where we have one. `prefill_attention` takes any number of queries and divides scores by
the root of the head size before it multiplies them by ``alpha``; a decode operator takes one query of each sequence,
the plain scale and no more than some tens of sequences. Both want lengths on the host and on the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from kunport_runtime.providers.vendor.batch import Part, parts, place, put, select
from kunport_runtime.providers.vendor.pages import heads_first, tokens_first, vendor_pages
from kunport_runtime.providers.vendor.wheel import Wheel, installed_wheel


def cache_write(
    key_cache: Tensor,
    value_cache: Tensor,
    key: Tensor,
    value: Tensor,
    slot_mapping: Tensor,
    key_scale: float,
    value_scale: float,
) -> None:
    """One call where both caches are laid out alike and have heads of one size, else one for each."""
    write = installed_wheel().operator("reshape_and_cache_flash")
    key, value = key.contiguous(), value.contiguous()
    for fits, view, by_token in ((heads_first, _heads_first, False), (tokens_first, _as_it_is, True)):
        if key.shape == value.shape and fits(key_cache) and fits(value_cache):
            write(key, value, view(key_cache), view(value_cache), slot_mapping, BLHD_LAYOUT=by_token)
            return
    for rows, cache in ((key, key_cache), (value, value_cache)):
        by_token = not heads_first(cache)
        pages = cache if by_token else _heads_first(cache)
        write(rows, rows, pages, pages, slot_mapping, BLHD_LAYOUT=by_token)


def mla_cache_write(cache: Tensor, latent: Tensor, rope_key: Tensor, slot_mapping: Tensor, cache_scale: float) -> None:
    """Latents and rotated keys side by side."""
    write = installed_wheel().operator("concat_and_cache_mla")
    write(kv_c=latent.contiguous(), k_pe=rope_key.contiguous(), slot_mapping=slot_mapping, kv_cache=cache)


def paged_attention(
    out: Tensor,
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    max_query_len: int,
    max_seq_len: int,
    scale: float,
    window: int,
    softcap: float,
    sinks: Tensor | None,
    alibi_slopes: Tensor | None,
    key_scale: float,
    value_scale: float,
    query_start_loc_cpu: Tensor | None,
    seq_lens_cpu: Tensor | None,
) -> None:
    """Sequences with one query by a decode operator, where one takes these options; all others by prefill."""
    wheel = installed_wheel()
    starts = query_start_loc.cpu() if query_start_loc_cpu is None else query_start_loc_cpu
    lengths = seq_lens.cpu() if seq_lens_cpu is None else seq_lens_cpu
    keys, values, tables = vendor_pages(key_cache, value_cache, block_tables, seq_lens)
    sinks = None if sinks is None else sinks.float()
    prefill = partial(_prefill, wheel, keys, values, scale, window, sinks, alibi_slopes)
    decode = _decode_operator(wheel, query.shape[-1], keys, values, scale, window, sinks, alibi_slopes)
    single, several = parts(starts, lengths, seq_lens)
    for part, run in ((single, decode or prefill), (several, prefill)):
        if len(part):
            rows = place(out, part.tokens)
            run(rows, select(query, part.tokens), select(tables, part.sequences), part)
            put(out, part.tokens, rows)


Run = Callable[[Tensor, Tensor, Tensor, Part], None]


def _prefill(
    wheel: Wheel,
    keys: Tensor,
    values: Tensor,
    scale: float,
    window: int,
    sinks: Tensor | None,
    alibi_slopes: Tensor | None,
    out: Tensor,
    query: Tensor,
    tables: Tensor,
    part: Part,
) -> None:
    query_starts, key_starts = _starts(part.query_lens), _starts(part.key_lens)
    wheel.operator("prefill_attention")(
        q=query,
        k=keys,
        v=values,
        out=out,
        is_causal=True,
        is_prefix_cache=True,
        block_table=tables,
        alpha=scale * math.sqrt(query.shape[-1]),
        context_qlen_lod_cpu=query_starts,
        context_qlen_lod_xpu=query_starts.to(query.device),
        context_kvlen_lod_cpu=key_starts,
        context_kvlen_lod_xpu=key_starts.to(query.device),
        alibi_slopes=alibi_slopes,
        softmax_lse=None,
        swa_left=window or -1,
        swa_right=0 if window else -1,
        sink=sinks,
    )


def _decode_operator(
    wheel: Wheel,
    head_dim: int,
    keys: Tensor,
    values: Tensor,
    scale: float,
    window: int,
    sinks: Tensor | None,
    alibi_slopes: Tensor | None,
) -> Run | None:
    """The operator for one query of each sequence; None where the wheel has none that takes these options."""
    if alibi_slopes is not None:
        return None
    plain = not window and sinks is None
    if wheel.has("speculative_attention") and (plain or wheel.takes("speculative_attention", "max_window_size")):
        return partial(_speculative, wheel, keys, values, scale, window, sinks)
    if wheel.has("paged_attention") and plain and math.isclose(scale, head_dim**-0.5):
        return partial(_paged, wheel, keys, values)
    return None


def _speculative(
    wheel: Wheel,
    keys: Tensor,
    values: Tensor,
    scale: float,
    window: int,
    sinks: Tensor | None,
    out: Tensor,
    query: Tensor,
    tables: Tensor,
    part: Part,
) -> None:
    _, kv_heads, block_size, head_dim = keys.shape
    options = {"max_window_size": window or -1, "sink": sinks} if window or sinks is not None else {}
    for some in _batches(len(part), wheel.generation.decode_batch):
        lengths = part.key_lens[some]
        wheel.operator("speculative_attention")(
            out=out[some],
            q=query[some].unsqueeze(0),
            k_cache=keys,
            v_cache=values,
            context_lens_cpu=lengths,
            context_lens_xpu=part.key_lens_device[some],
            batch_num=len(lengths),
            qlen=1,
            max_context_len=tables.shape[1] * block_size,
            head_num=query.shape[1],
            head_dim=head_dim,
            scale=scale,
            kv_head_num=kv_heads,
            block_size=block_size,
            max_num_blocks_per_seq=tables.shape[1],
            block_tables=tables[some],
            **options,
        )


def _paged(wheel: Wheel, keys: Tensor, values: Tensor, out: Tensor, query: Tensor, tables: Tensor, part: Part) -> None:
    for some in _batches(len(part), wheel.generation.decode_batch):
        wheel.operator("paged_attention")(
            x=query[some],
            k_cache=keys,
            v_cache=values,
            block_tables=tables[some],
            context_lens_cpu=part.key_lens[some],
            context_lens_xpu=part.key_lens_device[some],
            is_context=False,
            is_causal=True,
            out=out[some],
            vo_head_dim=query.shape[-1],
        )


def _batches(count: int, most: int) -> list[slice]:
    return [slice(start, min(start + most, count)) for start in range(0, count, most)]


def _starts(lengths: Tensor) -> Tensor:
    """``[sequences + 1]`` int32 of ``[sequences]`` lengths."""
    return torch.cat((lengths.new_zeros(1), lengths.cumsum(0))).to(torch.int32)


def _heads_first(cache: Tensor) -> Tensor:
    return cache.transpose(1, 2)


def _as_it_is(cache: Tensor) -> Tensor:
    return cache
