"""Attention over pages, and the writing of pages.

The vendor has two operators where we have one. `prefill_attention` takes any number of queries and divides scores by
the root of the head size before it multiplies them by ``alpha``; a decode operator takes one query of each sequence,
the plain scale and no more than some tens of sequences. Both want lengths on the host and on the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

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
    starts = query_start_loc.cpu() if query_start_loc_cpu is None else query_start_loc_cpu
    lengths = seq_lens.cpu() if seq_lens_cpu is None else seq_lens_cpu
    keys, values, tables = vendor_pages(key_cache, value_cache, block_tables, seq_lens)
    sinks = None if sinks is None else sinks.float()
    attention = _Attention(installed_wheel(), keys, values, scale, window, sinks, alibi_slopes)
    single, several = parts(starts, lengths, seq_lens)
    for part, run in ((single, attention.decode_operator() or attention.prefill), (several, attention.prefill)):
        if len(part):
            rows = place(out, part.tokens)
            run(rows, select(query, part.tokens), select(tables, part.sequences), part)
            put(out, part.tokens, rows)


Run = Callable[[Tensor, Tensor, Tensor, Part], None]
"""Writes the results of a part of a batch, of its queries and with its tables."""


@dataclass(frozen=True, slots=True)
class _Attention:
    """What all parts of a batch share.

    Attributes:
        wheel: whose operators run.
        keys: ``[blocks, kv_heads, block_size, head_dim]`` pages; ``values`` alike.
        sinks: float32.
    """

    wheel: Wheel
    keys: Tensor
    values: Tensor
    scale: float
    window: int
    sinks: Tensor | None
    alibi_slopes: Tensor | None

    def decode_operator(self) -> Run | None:
        """The operator for one query of each sequence; None where the wheel has none that takes these options."""
        if self.alibi_slopes is not None:
            return None
        needed = [name for name, given in (("max_window_size", self.window), ("sink", self.sinks is not None)) if given]
        takes = self.wheel.takes
        if self.wheel.has("speculative_attention") and all(takes("speculative_attention", name) for name in needed):
            return self._speculative
        default_scale = math.isclose(self.scale, self.keys.shape[-1] ** -0.5)
        if self.wheel.has("paged_attention") and not needed and default_scale:
            return self._paged
        return None

    def prefill(self, out: Tensor, query: Tensor, tables: Tensor, part: Part) -> None:
        """Any number of queries of each sequence."""
        query_starts, key_starts = _starts(part.query_lens), _starts(part.key_lens)
        self.wheel.operator("prefill_attention")(
            q=query,
            k=self.keys,
            v=self.values,
            out=out,
            is_causal=True,
            is_prefix_cache=True,
            block_table=tables,
            alpha=self.scale * math.sqrt(query.shape[-1]),
            context_qlen_lod_cpu=query_starts,
            context_qlen_lod_xpu=query_starts.to(query.device),
            context_kvlen_lod_cpu=key_starts,
            context_kvlen_lod_xpu=key_starts.to(query.device),
            alibi_slopes=self.alibi_slopes,
            softmax_lse=None,
            swa_left=self.window or -1,
            swa_right=0 if self.window else -1,
            sink=self.sinks,
        )

    def _speculative(self, out: Tensor, query: Tensor, tables: Tensor, part: Part) -> None:
        """One query of each sequence, in batches that the operator takes."""
        _, kv_heads, block_size, head_dim = self.keys.shape
        options = {"max_window_size": self.window or -1, "sink": self.sinks}
        taken = {name: value for name, value in options.items() if self.wheel.takes("speculative_attention", name)}
        for some in _batches(len(part), self.wheel.generation.decode_batch):
            self.wheel.operator("speculative_attention")(
                out=out[some],
                q=query[some].unsqueeze(0),
                k_cache=self.keys,
                v_cache=self.values,
                context_lens_cpu=part.key_lens[some],
                context_lens_xpu=part.key_lens_device[some],
                batch_num=some.stop - some.start,
                qlen=1,
                max_context_len=tables.shape[1] * block_size,
                head_num=query.shape[1],
                head_dim=head_dim,
                scale=self.scale,
                kv_head_num=kv_heads,
                block_size=block_size,
                max_num_blocks_per_seq=tables.shape[1],
                block_tables=tables[some],
                **taken,
            )

    def _paged(self, out: Tensor, query: Tensor, tables: Tensor, part: Part) -> None:
        """The same by the decode of earlier wheels, which has no scale of its own."""
        for some in _batches(len(part), self.wheel.generation.decode_batch):
            self.wheel.operator("paged_attention")(
                x=query[some],
                k_cache=self.keys,
                v_cache=self.values,
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
