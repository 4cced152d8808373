"""Tries the implementations that a model will need before its first request, which would wait for it otherwise."""

from __future__ import annotations

import torch
from torch import nn
from vllm.logger import init_logger

from kunport_runtime.operators.dispatch import dispatcher
from kunport_runtime.operators.overview import try_all

logger = init_logger(f"vllm.{__name__}")

_OF_EVERY_MODEL = ("cache_write", "paged_attention", "sample")


def operators_of(model: nn.Module) -> list[str]:
    """The operators that a model's layers may run."""
    names = set(_OF_EVERY_MODEL)
    for module in model.modules():
        names.update(getattr(module, "operators", ()), getattr(getattr(module, "quant_method", None), "operators", ()))
    return sorted(names)


def probe(model: nn.Module, device: torch.device, dtype: torch.dtype) -> None:
    """Try what the policy may choose for a model; what is out of service is logged, and named again in the account."""
    if not dispatcher.policy.probe:
        return
    for trial in try_all(dispatcher, device, [str(dtype).removeprefix("torch.")], operators_of(model)):
        if trial.reason:
            logger.warning("%s's %s will not run in %s: %s", trial.provider, trial.operator, trial.dtype, trial.reason)
