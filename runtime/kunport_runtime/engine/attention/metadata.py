"""What a batch is, for attention: one ragged batch of prefills, continued prefills and decodes alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from vllm.v1.attention.backend import AttentionCGSupport, AttentionMetadataBuilder, CommonAttentionMetadata


@dataclass(slots=True)
class BatchMetadata:
    """Lengths and tables of a batch; each length exists on the device and on the host, with equal contents.

    Attributes:
        tokens: of the batch, without padding.
        query_start_loc: ``[sequences + 1]`` int32: where each sequence's queries begin.
        seq_lens: ``[sequences]`` int32: keys of each sequence, those of this step included.
        block_table: ``[sequences, blocks]`` int32.
        max_query_len, max_seq_len: the longest of the batch.
        query_start_loc_cpu, seq_lens_cpu: the same on the host, for providers that want them.
        causal: whether queries see earlier keys only.
    """

    tokens: int
    query_start_loc: Tensor
    seq_lens: Tensor
    block_table: Tensor
    max_query_len: int
    max_seq_len: int
    query_start_loc_cpu: Tensor
    seq_lens_cpu: Tensor | None
    causal: bool


class BatchMetadataBuilder(AttentionMetadataBuilder[BatchMetadata]):
    # A captured graph replays with other lengths but the same number of sequences, one query each.
    _cudagraph_support: ClassVar[AttentionCGSupport] = AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: torch.device) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)

    def build(
        self, common_prefix_len: int, common_attn_metadata: CommonAttentionMetadata, fast_build: bool = False
    ) -> BatchMetadata:
        common = common_attn_metadata
        return BatchMetadata(
            tokens=common.num_actual_tokens,
            query_start_loc=common.query_start_loc,
            seq_lens=common.seq_lens,
            block_table=common.block_table_tensor,
            max_query_len=common.max_query_len,
            max_seq_len=common.max_seq_len,
            query_start_loc_cpu=common.query_start_loc_cpu,
            # An upper bound in name; exact but for speculative decoding on the device, which is refused.
            seq_lens_cpu=common.seq_lens_cpu_upper_bound,
            causal=common.causal is True,
        )
