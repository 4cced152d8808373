"""A causal convolution of each channel over the last few tokens."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from vllm.model_executor.utils import set_weight_attrs

from kunport_runtime.engine.states.layer import StateLayer
from kunport_runtime.engine.states.state import State
from kunport_runtime.errors import KunportRuntimeError


class ShortConvolution(StateLayer):
    """``torch.nn.Conv1d`` with a group a channel, seeing no later token; it has that layer's parameters.

    Args:
        channels: of the input and the output.
        width: tokens that it sees, the present one included.
        bias: whether it has one.
        activation: of the result, ``none`` or ``silu``.
        parts: how many tensors of a checkpoint hold the weight, the channels of one behind those of another.
        prefix: its place in the model.
    """

    operators = ("short_convolution",)
    constants: ClassVar[frozenset[str]] = frozenset(("weight", "bias"))

    def __init__(
        self,
        channels: int,
        width: int,
        *,
        bias: bool = False,
        activation: str = "none",
        parts: int = 1,
        prefix: str = "",
    ) -> None:
        super().__init__(self.states(channels, width), prefix)
        self.weight = nn.Parameter(torch.empty(channels, 1, width), requires_grad=False)
        self.bias = nn.Parameter(torch.empty(channels), requires_grad=False) if bias else None
        self.options = {"activation": activation}
        self.parts, self._arrived = parts, dict[int, Tensor]()
        set_weight_attrs(self.weight, {"weight_loader": self.load_weight})

    def load_weight(self, weight: nn.Parameter, loaded: Tensor, part: int | None = None) -> None:
        """Take the whole weight, or part after part, in any order; where each belongs is known once all are there.

        vLLM tells a part's number by an attribute of the tensor.
        """
        self._arrived[getattr(loaded, "shard_id", 0) if part is None else part] = loaded
        if len(self._arrived) == self.parts:
            weight.data.copy_(torch.cat([self._arrived[place] for place in range(self.parts)]))
            self._arrived.clear()

    @staticmethod
    def states(channels: int, width: int) -> tuple[State, ...]:
        """The inputs before the present one, oldest first."""
        return (State((channels, width - 1), sums=False),)

    def forward(self, x: Tensor) -> Tensor:
        """``[tokens, channels]`` to the same."""
        if self._arrived:
            raise KunportRuntimeError(
                f"{self.prefix}.weight has {len(self._arrived)} of its {self.parts} parts.",
                "Load a checkpoint that has them all.",
            )
        return self.run(x, x=x, weight=self.weight.squeeze(1), bias=self.bias)


class TokenShift(StateLayer):
    """Each token's predecessor in its sequence, zeros before the first: a convolution that sees it alone.

    Args:
        channels: of the input and the output.
        prefix: its place in the model.
    """

    operators = ("short_convolution",)
    constants: ClassVar[frozenset[str]] = frozenset(("weight",))
    weight: Tensor

    def __init__(self, channels: int, *, prefix: str = "") -> None:
        super().__init__(self.states(channels), prefix)
        weight = torch.tensor([1.0, 0.0]).expand(channels, 2).contiguous()
        self.register_buffer("weight", weight, persistent=False)
        self.options = {"activation": "none"}

    @staticmethod
    def states(channels: int) -> tuple[State, ...]:
        """The last token."""
        return (State((channels, 1), sums=False),)

    def forward(self, x: Tensor) -> Tensor:
        """``[tokens, channels]`` to the same."""
        return self.run(x, x=x, weight=self.weight.to(x.dtype))
