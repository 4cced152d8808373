"""LoRA weights in plain torch, for any device."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from vllm.lora.punica_wrapper.punica_cpu import PunicaWrapperCPU


class LoraWeights(PunicaWrapperCPU):
    """vLLM's implementation in torch, with requests that have no LoRA left alone.

    It takes such a request's index, -1, for that of the last adapter, whose weights it then adds (vLLM 0.32). An input
    of zeros adds nothing, whichever weights are taken.
    """

    def add_lora_linear(self, y: Tensor, x: Tensor, *weights: Any, **options: Any) -> None:
        super().add_lora_linear(y, _only_with_lora(x, self.token_lora_indices), *weights, **options)

    def add_lora_embedding(self, y: Tensor, x: Tensor, *weights: Any, **options: Any) -> None:
        super().add_lora_embedding(y, _only_with_lora(x, self.token_lora_indices), *weights, **options)

    def add_lora_logits(self, y: Tensor, x: Tensor, *weights: Any, **options: Any) -> None:
        super().add_lora_logits(y, _only_with_lora(x, self.sampler_indices), *weights, **options)


def _only_with_lora(x: Tensor, indices: Tensor) -> Tensor:
    """``x`` ``[..., size]`` with zeros in the rows that have no LoRA."""
    rows = x.view(-1, x.shape[-1])
    return rows.masked_fill((indices[: rows.shape[0]] < 0).unsqueeze(-1), 0).view(x.shape)
