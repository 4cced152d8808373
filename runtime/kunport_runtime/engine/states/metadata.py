"""Which tokens and which state belong together in a batch, for all layers that keep states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from vllm.v1.attention.backend import (
    AttentionBackend,
    AttentionCGSupport,
    AttentionMetadataBuilder,
    CommonAttentionMetadata,
)
from vllm.v1.attention.backends.utils import mamba_get_block_table_tensor


@dataclass(slots=True)
class StateBatch:
    """A ragged batch of prefills, continued prefills and decodes alike.

    Attributes:
        tokens: of the batch, without padding.
        query_start_loc: ``[sequences + 1]`` int32: where each sequence's tokens begin.
        slots: ``[sequences]`` int32: the page of each sequence.
        continued: ``[sequences]`` bool: whether it has been read up to here, so that its state counts.
    """

    tokens: int
    query_start_loc: Tensor
    slots: Tensor
    continued: Tensor


class StateBatchBuilder(AttentionMetadataBuilder[StateBatch]):
    # A captured graph would need these tensors at fixed places.
    _cudagraph_support: ClassVar[AttentionCGSupport] = AttentionCGSupport.NEVER

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: torch.device) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)

    def build(
        self, common_prefix_len: int, common_attn_metadata: CommonAttentionMetadata, fast_build: bool = False
    ) -> StateBatch:
        common = common_attn_metadata
        starts = common.query_start_loc
        mode = self.vllm_config.cache_config.mamba_cache_mode
        table = mamba_get_block_table_tensor(common.block_table_tensor, common.seq_lens, self.kv_cache_spec, mode)
        return StateBatch(
            tokens=common.num_actual_tokens,
            query_start_loc=starts,
            slots=table[:, 0],
            continued=common.seq_lens > starts[1:] - starts[:-1],
        )


class StateBackend(AttentionBackend):
    """Named where vLLM asks a layer for its attention; only its metadata is of use."""

    @staticmethod
    def get_name() -> str:
        return "KUNPORT_STATE"

    @staticmethod
    def get_builder_cls() -> type[StateBatchBuilder]:
        return StateBatchBuilder

    @classmethod
    def is_ssm(cls) -> bool:
        return True
