"""A causal convolution of each channel over the last few tokens."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from kunport_runtime.engine.states.layer import StateLayer
from kunport_runtime.engine.states.state import State


class ShortConvolution(StateLayer):
    """``torch.nn.Conv1d`` with a group a channel, seeing no later token; it has that layer's parameters.

    Args:
        channels: of the input and the output.
        width: tokens that it sees, the present one included.
        bias: whether it has one.
        activation: of the result, ``none`` or ``silu``.
        prefix: its place in the model.
    """

    operators = ("short_convolution",)
    constants: ClassVar[frozenset[str]] = frozenset(("weight", "bias"))

    def __init__(
        self, channels: int, width: int, *, bias: bool = False, activation: str = "none", prefix: str = ""
    ) -> None:
        super().__init__(self.states(channels, width), prefix)
        self.weight = nn.Parameter(torch.empty(channels, 1, width), requires_grad=False)
        self.bias = nn.Parameter(torch.empty(channels), requires_grad=False) if bias else None
        self.options = {"activation": activation}

    @staticmethod
    def states(channels: int, width: int) -> tuple[State, ...]:
        """The inputs before the present one, oldest first."""
        return (State((channels, width - 1), sums=False),)

    def forward(self, x: Tensor) -> Tensor:
        """``[tokens, channels]`` to the same."""
        x = x.contiguous()
        return self.run(torch.empty_like(x), x=x, weight=self.weight.squeeze(1), bias=self.bias)
