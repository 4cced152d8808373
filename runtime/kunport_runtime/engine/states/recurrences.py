"""Recurrences of single channels."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from kunport_runtime.engine.states.layer import StateLayer
from kunport_runtime.engine.states.state import State


class RgLru(StateLayer):
    """The real-gated linear recurrent unit of Griffin.

    Args:
        channels: of input and output.
        prefix: its place in the model.
    """

    operators = ("rg_lru",)
    constants: ClassVar[frozenset[str]] = frozenset(("a_parameter",))

    def __init__(self, channels: int, *, prefix: str = "") -> None:
        super().__init__(self.states(channels), prefix)

    @staticmethod
    def states(channels: int) -> tuple[State, ...]:
        return (State((channels,), sums=True),)

    def forward(self, x: Tensor, input_gate: Tensor, recurrence_gate: Tensor, a_parameter: Tensor) -> Tensor:
        """All but ``a_parameter`` ``[channels]`` are ``[tokens, channels]``."""
        gates = {"input_gate": input_gate, "recurrence_gate": recurrence_gate}
        return self.run(x, x=x, **gates, a_parameter=a_parameter)


class Rwkv(StateLayer):
    """RWKV 4's weighted mean of all values so far.

    Args:
        channels: of input and output.
        prefix: its place in the model.
    """

    operators = ("rwkv",)
    constants: ClassVar[frozenset[str]] = frozenset(("time_decay", "time_first"))

    def __init__(self, channels: int, *, prefix: str = "") -> None:
        super().__init__(self.states(channels), prefix)

    @staticmethod
    def states(channels: int) -> tuple[State, ...]:
        return (State((3, channels), sums=True, axis=1),)

    def forward(self, receptance: Tensor, key: Tensor, value: Tensor, time_decay: Tensor, time_first: Tensor) -> Tensor:
        """All but ``time_decay`` and ``time_first`` ``[channels]`` are ``[tokens, channels]``."""
        rates = {"time_decay": time_decay, "time_first": time_first}
        return self.run(value, receptance=receptance, key=key, value=value, **rates)
