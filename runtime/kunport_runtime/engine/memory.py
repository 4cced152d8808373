"""The memory plan of an engine's configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kunport_runtime.memory.plan import MemoryPlan, activation_bytes, weight_bytes


def plan_memory(vllm_config: Any) -> MemoryPlan:
    """What one worker of this engine needs; of a checkpoint that is no folder here, the weights are not known."""
    model, ranks = vllm_config.model_config, vllm_config.parallel_config.tensor_parallel_size
    text = model.hf_text_config
    element = model.dtype.itemsize
    widest = getattr(text, "intermediate_size", None) or 4 * text.hidden_size
    return MemoryPlan(
        weights=weight_bytes(Path(model.model), element, ranks),
        kv_cache=vllm_config.cache_config.kv_cache_memory_bytes,
        activations=activation_bytes(
            vllm_config.scheduler_config.max_num_batched_tokens,
            vllm_config.scheduler_config.max_num_seqs,
            model.get_hidden_size(),
            widest // ranks,
            model.get_vocab_size(),
            element,
        ),
    )
