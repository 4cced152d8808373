"""The scans of state-space models."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from kunport_runtime.engine.states.layer import StateLayer
from kunport_runtime.engine.states.state import State


class Mamba1Scan(StateLayer):
    """Mamba's selective scan: a decay for each channel and each of its states.

    Args:
        channels: of input and output.
        state_size: numbers that each channel keeps.
        dt_softplus: whether the step goes through a softplus.
        prefix: its place in the model.
    """

    operators = ("mamba1_scan",)
    constants: ClassVar[frozenset[str]] = frozenset(("a", "d", "dt_bias"))
    common: ClassVar[frozenset[str]] = frozenset(("b", "c"))

    def __init__(self, channels: int, state_size: int, *, dt_softplus: bool = True, prefix: str = "") -> None:
        super().__init__(self.states(channels, state_size), prefix)
        self.options = {"dt_softplus": dt_softplus}

    @staticmethod
    def states(channels: int, state_size: int) -> tuple[State, ...]:
        return (State((channels, state_size), sums=True),)

    def forward(
        self,
        x: Tensor,
        dt: Tensor,
        a: Tensor,
        b: Tensor,
        c: Tensor,
        d: Tensor | None = None,
        dt_bias: Tensor | None = None,
        gate: Tensor | None = None,
    ) -> Tensor:
        """``x``, ``dt`` and ``gate`` ``[tokens, channels]``, ``b`` and ``c`` ``[tokens, state_size]``, ``a``
        ``[channels, state_size]``, ``d`` and ``dt_bias`` ``[channels]``, to ``[tokens, channels]``.
        """
        return self.run(x, x=x, dt=dt, a=a.float(), b=b, c=c, d=d, dt_bias=dt_bias, gate=gate)


class Mamba2Scan(StateLayer):
    """Mamba 2's scan: one decay a head.

    Args:
        heads: of input and output, each ``head_dim`` wide.
        head_dim: width of a head.
        state_size: numbers that each of those keeps.
        dt_softplus: whether the step goes through a softplus.
        dt_min: the smallest step.
        dt_max: the largest.
        prefix: its place in the model.
    """

    operators = ("mamba2_scan",)
    constants: ClassVar[frozenset[str]] = frozenset(("a", "d", "dt_bias"))

    def __init__(
        self,
        heads: int,
        head_dim: int,
        state_size: int,
        *,
        dt_softplus: bool = True,
        dt_min: float = 0.0,
        dt_max: float = float("inf"),
        prefix: str = "",
    ) -> None:
        super().__init__(self.states(heads, head_dim, state_size), prefix)
        self.options = {"dt_softplus": dt_softplus, "dt_min": float(dt_min), "dt_max": float(dt_max)}

    @staticmethod
    def states(heads: int, head_dim: int, state_size: int) -> tuple[State, ...]:
        return (State((heads, head_dim, state_size), sums=True),)

    def forward(
        self,
        x: Tensor,
        dt: Tensor,
        a: Tensor,
        b: Tensor,
        c: Tensor,
        d: Tensor | None = None,
        dt_bias: Tensor | None = None,
    ) -> Tensor:
        """``x`` ``[tokens, heads, head_dim]``, ``dt`` ``[tokens, heads]``, ``b`` and ``c`` ``[tokens, groups,
        state_size]``, ``a``, ``d`` and ``dt_bias`` ``[heads]``, to ``[tokens, heads, head_dim]``.
        """
        return self.run(x, x=x, dt=dt, a=a.float(), b=b, c=c, d=d, dt_bias=dt_bias)
