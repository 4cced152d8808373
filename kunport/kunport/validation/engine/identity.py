"""Which class the engine really runs, asked of the live model in the engine's worker."""

from __future__ import annotations

import inspect

import torch
from vllm import LLM

from kunport.validation.report import RanClass


def ran_class(llm: LLM) -> RanClass:
    """The class of the model that the (first) worker holds."""
    described: list[RanClass] = llm.apply_model(_describe)
    return described[0]


def _describe(model: torch.nn.Module) -> RanClass:
    kind = type(model)
    return RanClass(module=kind.__module__, name=kind.__qualname__, file=inspect.getfile(kind))
