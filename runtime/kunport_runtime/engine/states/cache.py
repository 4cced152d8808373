"""The states of one decoder layer, as vLLM's cache keeps them: one page a sequence, all states of the layer in it."""

from __future__ import annotations

import torch
from torch import Tensor
from vllm.config import VllmConfig, get_current_vllm_config
from vllm.forward_context import get_forward_context
from vllm.model_executor.layers.mamba.abstract import MambaBase
from vllm.v1.attention.backend import AttentionBackend
from vllm.v1.attention.backends.registry import MambaAttentionBackendEnum

from kunport_runtime.engine.states.metadata import StateBackend, StateBatch
from kunport_runtime.engine.states.state import State


class StateCache(MambaBase):
    """Kept under the decoder layer's name, where vLLM looks for what needs memory for each sequence.

    Attributes:
        kv_cache: the states, in the order in which they were added, ``[pages, *shape]`` each. Their rows are contiguous
            and a page apart.
    """

    def __init__(self, name: str, vllm_config: VllmConfig) -> None:
        self.name = name
        self.vllm_config = vllm_config
        self.states: list[State] = []
        self.kv_cache: tuple[Tensor, ...] = ()

    @classmethod
    def of_layer(cls, prefix: str) -> StateCache:
        """The cache of the decoder layer that a module is in (``model.layers.3.mixer.conv1d``), made at first use."""
        vllm_config = get_current_vllm_config()
        parts = prefix.split(".")
        number = next((place for place, part in enumerate(parts) if part.isdigit()), len(parts) - 1)
        name = ".".join([*parts[: number + 1], "states"])
        layers = vllm_config.compilation_config.static_forward_context
        if name not in layers:
            layers[name] = cls(name, vllm_config)
        cache: StateCache = layers[name]
        return cache

    def add(self, states: tuple[State, ...]) -> slice:
        """Make room for more states of each sequence; where they are in ``kv_cache``."""
        first = len(self.states)
        self.states.extend(states)
        return slice(first, len(self.states))

    def batch(self) -> StateBatch | None:
        """The batch that is computed; None where vLLM measures memory with one that has no states yet."""
        metadata = get_forward_context().attn_metadata
        if not isinstance(metadata, dict):
            return None
        batch: StateBatch | None = metadata.get(self.name)
        return batch

    def get_state_shape(self) -> tuple[tuple[int, ...], ...]:
        return tuple(state.shape for state in self.states)

    def get_state_dtype(self) -> tuple[torch.dtype, ...]:
        return tuple(state.dtype(self.vllm_config) for state in self.states)

    @property
    def mamba_type(self) -> MambaAttentionBackendEnum:
        return MambaAttentionBackendEnum.LINEAR

    def get_attn_backend(self) -> type[AttentionBackend]:
        return StateBackend
