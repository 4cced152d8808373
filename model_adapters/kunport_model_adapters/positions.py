"""Models whose configuration speaks of several axes of positions, which are all the same for text."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from vllm.config import VllmConfig


class TextPositions:
    """Answers vLLM, which asks such a model for the positions of a prompt: a row for each axis (M-RoPE).

    A class that inherits it keeps ``position_axes``, as vLLM counts them.
    """

    supports_mrope: ClassVar[Literal[True]] = True
    position_axes: int

    def get_mrope_input_positions(self, input_tokens: list[int], mm_features: list[Any]) -> tuple[torch.Tensor, int]:
        """The places of the tokens, ``[axes, tokens]`` int64, and by how much later ones are off: by nothing.

        Args:
            input_tokens: of the prompt.
            mm_features: of images and the like: there are none.
        """
        return torch.arange(len(input_tokens)).expand(self.position_axes, -1), 0


def position_axes(vllm_config: VllmConfig) -> int:
    """How many rows of positions vLLM keeps for a token of this model."""
    axes: int = vllm_config.model_config.mrope_num_dims
    return axes
