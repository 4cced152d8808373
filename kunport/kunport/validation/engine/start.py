"""Starting the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kunport_model_adapters.probe import EXTENSION
from vllm import LLM


def engine(job: Mapping[str, Any]) -> LLM:
    """VLLM on the job's checkpoint, as a server would start it, but for what would blur a comparison.

    Prefix caching is off, so that every run computes what it reports; eager, since compilation is not what is judged.
    The job's ``settings``, where it has some, go before all of these.
    """
    arguments = {
        "model": job["checkpoint"],
        "trust_remote_code": job["trust_remote_code"],
        "skip_tokenizer_init": True,
        "dtype": job["dtype"],
        "seed": job["seed"],
        "enforce_eager": True,
        "enable_prefix_caching": False,
        "max_model_len": job["context"],
        "block_size": job["page"],
        "max_num_seqs": max(job["batch_sizes"]),
        "max_logprobs": job["top"],
        "kv_cache_memory_bytes": job["kv_cache_bytes"],
        "disable_log_stats": True,
        "worker_extension_cls": EXTENSION,
    }
    return LLM(**arguments | job.get("settings", {}))


def settings(llm: LLM) -> dict[str, int]:
    """How the engine was set up: bytes of its KV cache, tokens of a page and of the longest sequence."""
    config = llm.llm_engine.vllm_config
    return {
        "kv_cache_bytes": int(config.cache_config.kv_cache_memory_bytes or 0),
        "page_size": int(config.cache_config.block_size),
        "context": int(config.model_config.max_model_len),
    }


def device() -> str:
    """What the engine computes on, in the platform's words; ``CPU`` for that."""
    from vllm.platforms import current_platform

    return "CPU" if current_platform.device_type == "cpu" else str(current_platform.get_device_name())
