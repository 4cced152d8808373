"""The attention backend that the platform names."""

from __future__ import annotations

from typing import ClassVar

import torch
from vllm.v1.attention.backend import AttentionBackend, MultipleOf
from vllm.v1.attention.backends.registry import AttentionBackendEnum
from vllm.v1.kv_cache_interface import KVCacheLayout

from kunport_runtime.engine.attention.implementation import PagedAttention
from kunport_runtime.engine.attention.metadata import BatchMetadataBuilder

NAME = "KUNPORT"


class PagedAttentionBackend(AttentionBackend):
    forward_includes_kv_cache_update: bool = False
    supported_dtypes: ClassVar[list[torch.dtype]] = [torch.float16, torch.bfloat16, torch.float32]
    supported_kv_cache_dtypes: ClassVar[list[str]] = ["auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"]

    @staticmethod
    def get_name() -> str:
        return NAME

    @staticmethod
    def get_impl_cls() -> type[PagedAttention]:
        return PagedAttention

    @staticmethod
    def get_builder_cls() -> type[BatchMetadataBuilder]:
        return BatchMetadataBuilder

    @staticmethod
    def get_supported_kernel_block_sizes(kv_cache_spec: object = None) -> list[int | MultipleOf]:
        return [MultipleOf(16)]

    @classmethod
    def supported_kv_cache_layouts(cls) -> tuple[KVCacheLayout, ...]:
        # Blocks, then tokens, then heads: what `kunport_runtime.engine.attention.cache` reads.
        return (KVCacheLayout.LBNHC,)

    @classmethod
    def supports_sliding_window(cls) -> bool:
        return True

    @classmethod
    def supports_sink(cls) -> bool:
        return True


# vLLM keeps its backends in an enumeration, and looks a layer's up by name.
if NAME not in AttentionBackendEnum.__members__:
    AttentionBackendEnum.register(NAME, f"{__name__}.{PagedAttentionBackend.__qualname__}")
