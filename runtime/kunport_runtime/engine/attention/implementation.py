"""The attention of one layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from vllm.v1.attention.backend import AttentionImpl, AttentionType

from kunport_runtime import operators
from kunport_runtime.devices.registry import current_device
from kunport_runtime.engine.attention.cache import pages
from kunport_runtime.engine.attention.metadata import BatchMetadata
from kunport_runtime.errors import KunportRuntimeError
from kunport_runtime.operators.accounting import layer as counted_layer

_FP8 = {"fp8": torch.float8_e4m3fn, "fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}


class PagedAttention(AttentionImpl):
    """Writes keys and values to the cache and attends over it, each by one operator."""

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        scale: float,
        num_kv_heads: int,
        alibi_slopes: list[float] | None,
        sliding_window: int | None,
        kv_cache_dtype: str,
        logits_soft_cap: float | None = None,
        attn_type: str = AttentionType.DECODER,
        kv_sharing_target_layer_name: str | None = None,
        sinks: Tensor | None = None,
    ) -> None:
        if attn_type != AttentionType.DECODER:
            raise KunportRuntimeError(
                f"Attention of the kind {attn_type!r} is not served.", "Serve a decoder, or run vLLM without kunport."
            )
        self.num_heads, self.num_kv_heads, self.head_size = num_heads, num_kv_heads, head_size
        self.scale = float(scale)
        self.window = sliding_window or 0
        self.softcap = float(logits_soft_cap or 0.0)
        self.sinks = sinks
        self.alibi_slopes = torch.tensor(alibi_slopes, dtype=torch.float32) if alibi_slopes is not None else None
        self.kv_cache_dtype = kv_cache_dtype
        self.heads_first = current_device().name == "kunlun"
        self.kv_sharing_target_layer_name = kv_sharing_target_layer_name

    def _pages(self, kv_cache: Tensor) -> tuple[Tensor, Tensor]:
        stored = _FP8.get(self.kv_cache_dtype)
        return pages(kv_cache.view(stored) if stored else kv_cache, self.head_size, self.heads_first)

    def do_kv_cache_update(
        self, layer: Any, key: Tensor, value: Tensor, kv_cache: Tensor, slot_mapping: Tensor
    ) -> None:
        """Store ``key`` and ``value`` ``[tokens, kv_heads, dim]``; padding beyond the slots is left out."""
        tokens = slot_mapping.shape[0]
        key_cache, value_cache = self._pages(kv_cache)
        with counted_layer(layer.layer_name):
            operators.cache_write(
                key_cache=key_cache,
                value_cache=value_cache,
                key=key[:tokens],
                value=value[:tokens],
                slot_mapping=slot_mapping,
                key_scale=layer._k_scale_float,
                value_scale=layer._v_scale_float,
            )

    def forward(
        self,
        layer: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        kv_cache: Tensor,
        attn_metadata: BatchMetadata | None,
        output: Tensor,
        output_scale: Tensor | None = None,
        output_block_scale: Tensor | None = None,
    ) -> Tensor:
        """Attend from ``query`` ``[tokens, heads, head_dim]``, into ``output`` ``[tokens, heads, value_dim]``."""
        if attn_metadata is None:  # vLLM measures memory with a batch that has no cache yet
            return output.zero_()
        batch = attn_metadata
        if not batch.causal:
            raise KunportRuntimeError("Attention that is not causal is not served.", "Run vLLM without kunport.")
        if self.alibi_slopes is not None and self.alibi_slopes.device != query.device:
            self.alibi_slopes = self.alibi_slopes.to(query.device)
        key_cache, value_cache = self._pages(kv_cache)
        with counted_layer(layer.layer_name):
            operators.paged_attention(
                out=output[: batch.tokens],
                query=query[: batch.tokens],
                key_cache=key_cache,
                value_cache=value_cache,
                block_tables=batch.block_table,
                query_start_loc=batch.query_start_loc,
                seq_lens=batch.seq_lens,
                max_query_len=batch.max_query_len,
                max_seq_len=batch.max_seq_len,
                scale=self.scale,
                window=self.window,
                softcap=self.softcap,
                sinks=self.sinks,
                alibi_slopes=self.alibi_slopes,
                key_scale=layer._k_scale_float,
                value_scale=layer._v_scale_float,
                query_start_loc_cpu=batch.query_start_loc_cpu,
                seq_lens_cpu=batch.seq_lens_cpu,
            )
        return output
