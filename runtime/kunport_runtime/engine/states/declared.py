"""Whether a model keeps its states by kunport's layers, asked while vLLM makes up its configuration."""

from __future__ import annotations

from typing import Any


def is_stateful(model_config: Any) -> bool:
    """Whether the class that will be served is a `StatefulModel`. Imports it, and nothing before it is asked."""
    from vllm.model_executor.models import ModelRegistry

    from kunport_runtime.engine.states.model import StatefulModel

    model, _ = ModelRegistry.resolve_model_cls(model_config.architecture, model_config=model_config)
    return issubclass(model, StatefulModel)
