"""What a model whose layers keep states tells vLLM, before any of its layers is made."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from vllm.config import VllmConfig
from vllm.model_executor.layers.mamba.mamba_utils import get_temporal_copy_spec

from kunport_runtime.engine.states.state import State


class StatefulModel:
    """Mixed into a model class; `states` says what one decoder layer keeps, in the order of its layers.

    vLLM takes every such model for a hybrid one, with attention or without: it then gives states and keys pages of one
    size.
    """

    has_inner_state: ClassVar[bool] = True
    is_hybrid: ClassVar[bool] = True

    @classmethod
    def states(cls, config: Any) -> tuple[State, ...]:
        """The states of a decoder layer under a configuration."""
        raise NotImplementedError

    @classmethod
    def get_mamba_state_shape_from_config(cls, vllm_config: VllmConfig) -> tuple[tuple[int, ...], ...]:
        ranks = vllm_config.parallel_config.tensor_parallel_size
        return tuple(state.of_one(ranks).shape for state in cls.states(vllm_config.model_config.hf_config))

    @classmethod
    def get_mamba_state_dtype_from_config(cls, vllm_config: VllmConfig) -> tuple[torch.dtype, ...]:
        return tuple(state.dtype(vllm_config) for state in cls.states(vllm_config.model_config.hf_config))

    def get_mamba_state_copy_funcs(self: Any, mamba_types: set[Any]) -> dict[Any, tuple[Any, ...]]:
        """How a state goes from one page to another where prefixes are shared: whole, as it is."""
        return dict.fromkeys(mamba_types, (get_temporal_copy_spec,) * len(self.states(self.config)))
