"""Makes a tiny model of a case in memory, with weights that all matter to the logits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kunport.tiny_models.cases import Case
from kunport.tiny_models.fields import engine_fields, tiny_fields

if TYPE_CHECKING:
    import torch


def build_config(case: Case, *, engine: bool = False) -> Any:
    """The tiny configuration of a case, a ``PreTrainedConfig``; ``engine`` asks for sizes that have kernels."""
    from transformers import CONFIG_MAPPING

    config_class = CONFIG_MAPPING[case.model_type]
    fields = engine_fields(config_class, case) if engine else tiny_fields(config_class, case.overrides)
    config = config_class(**fields)
    if hasattr(config, "is_decoder"):
        config.is_decoder = True
    return config


def build(case: Case, seed: int = 0, dtype: str | torch.dtype = "float32", engine: bool = False) -> tuple[Any, Any]:
    """The tiny configuration and randomised model of a case, on the CPU, in eager attention and evaluation mode."""
    import torch
    from transformers import AutoModelForCausalLM

    config = build_config(case, engine=engine)
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="eager").eval()
    randomize(model, seed)
    return config, model


def randomize(model: torch.nn.Module, seed: int = 0) -> None:
    """Make every parameter and saved floating-point buffer matter to the logits, in place.

    Default initialisation leaves biases, norm weights and attention sinks constant, and small matrices so small that
    a wrong one changes nothing: a wrong weight map would go unseen.
    """
    import torch

    saved = model.state_dict().keys()
    with torch.no_grad():
        torch.manual_seed(seed)
        for parameter in model.parameters():
            flat = parameter.flatten()
            if parameter.numel() > 1 and bool((flat == flat[0]).all()):
                parameter.add_(0.3 * torch.randn_like(parameter))
            elif parameter.ndim >= 2 and parameter.std() < 0.05:
                parameter.mul_(4.0)
        for name, buffer in model.named_buffers():
            if buffer.is_floating_point() and name in saved:
                buffer.add_(0.2 * torch.randn_like(buffer))
