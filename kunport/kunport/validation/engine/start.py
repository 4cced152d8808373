"""Starting the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from vllm import LLM


def engine(job: Mapping[str, Any]) -> LLM:
    """VLLM on the job's checkpoint, as a server would start it, but for what would blur a comparison.

    Prefix caching is off, so that every run computes what it reports; eager, since compilation is not what is judged.
    """
    return LLM(
        model=job["checkpoint"],
        skip_tokenizer_init=True,
        dtype=job["dtype"],
        seed=job["seed"],
        enforce_eager=True,
        enable_prefix_caching=False,
        max_model_len=job["context"],
        max_num_seqs=max(job["batch_sizes"]),
        max_logprobs=job["top"],
        kv_cache_memory_bytes=job["kv_cache_bytes"],
        disable_log_stats=True,
    )


def facts(llm: LLM) -> dict[str, int]:
    """What the engine holds whatever it serves: bytes of weights and KV cache, tokens of a page and the context."""
    config = llm.llm_engine.vllm_config
    return {
        "weights_bytes": sum(llm.apply_model(_weights_bytes)),
        "kv_cache_bytes": int(config.cache_config.kv_cache_memory_bytes or 0),
        "page_size": int(config.cache_config.block_size),
        "context": int(config.model_config.max_model_len),
    }


def _weights_bytes(model: torch.nn.Module) -> int:
    """Bytes of all parameters and buffers, tensors that share storage counted once."""
    tensors = [*model.parameters(), *model.buffers()]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values())
