"""Matrix memories: what is written under a key is read by a query."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from kunport_runtime.engine.states.layer import StateLayer
from kunport_runtime.engine.states.state import State


def _memory(heads: int, key_dim: int, value_dim: int) -> State:
    return State((heads, key_dim, value_dim), sums=True)


class GatedDeltaRule(StateLayer):
    """The gated delta rule: what a key recalls is replaced, in part, by the value.

    Args:
        heads: of values.
        key_dim: width of queries and keys.
        value_dim: width of values.
        scale: factor of the result.
        normalize: whether queries and keys are brought to length one.
        prefix: its place in the model.
    """

    operators = ("gated_delta_rule",)

    def __init__(
        self, heads: int, key_dim: int, value_dim: int, *, scale: float, normalize: bool = False, prefix: str = ""
    ) -> None:
        super().__init__(self.states(heads, key_dim, value_dim), prefix)
        self.heads, self.value_dim = heads, value_dim
        self.options = {"scale": float(scale), "normalize": normalize}

    @staticmethod
    def states(heads: int, key_dim: int, value_dim: int) -> tuple[State, ...]:
        return (_memory(heads, key_dim, value_dim),)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, decay: Tensor, beta: Tensor) -> Tensor:
        """``query`` and ``key`` ``[tokens, key_heads, key_dim]``, ``value`` ``[tokens, heads, value_dim]``, ``decay``
        ``[tokens, heads]`` or ``[tokens, heads, key_dim]``, ``beta`` ``[tokens, heads]``, to what values are like.
        """
        query, key, decay = query.to(value.dtype), key.to(value.dtype), decay.float()
        decay = decay.unsqueeze(-1) if decay.dim() == 2 else decay
        return self.run(value, query=query, key=key, value=value, decay=decay, beta=beta)


class LinearAttention(StateLayer):
    """Attention without softmax, each head forgetting at a rate of its own.

    Args:
        heads: of queries, keys and values.
        key_dim: width of queries and keys.
        value_dim: width of values.
        scale: factor of the result.
        prefix: its place in the model.
    """

    operators = ("linear_attention",)
    constants: ClassVar[frozenset[str]] = frozenset(("decay",))

    def __init__(self, heads: int, key_dim: int, value_dim: int, *, scale: float = 1.0, prefix: str = "") -> None:
        super().__init__(self.states(heads, key_dim, value_dim), prefix)
        self.options = {"scale": float(scale)}

    @staticmethod
    def states(heads: int, key_dim: int, value_dim: int) -> tuple[State, ...]:
        return (_memory(heads, key_dim, value_dim),)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, decay: Tensor) -> Tensor:
        """``query`` and ``key`` ``[tokens, heads, key_dim]``, ``value`` ``[tokens, heads, value_dim]``, ``decay``
        ``[heads]``, the logarithm of what a step keeps, to what values are like.
        """
        query, key = query.to(value.dtype), key.to(value.dtype)
        return self.run(value, query=query, key=key, value=value, decay=decay.float().flatten())


class MatrixLstm(StateLayer):
    """xLSTM's matrix memory, with gates that are exponentials.

    Args:
        heads: of queries, keys and values.
        key_dim: width of queries and keys.
        value_dim: width of values.
        scale: factor of the queries.
        epsilon: added to the denominator.
        prefix: its place in the model.
    """

    operators = ("mlstm",)
    state_names: ClassVar[tuple[str, ...]] = ("memory", "normalizer", "maximum")

    def __init__(
        self, heads: int, key_dim: int, value_dim: int, *, scale: float, epsilon: float, prefix: str = ""
    ) -> None:
        super().__init__(self.states(heads, key_dim, value_dim), prefix)
        self.options = {"scale": float(scale), "epsilon": float(epsilon)}

    @staticmethod
    def states(heads: int, key_dim: int, value_dim: int) -> tuple[State, ...]:
        memory = _memory(heads, key_dim, value_dim)
        return (memory, State((heads, key_dim), sums=True), State((heads,), sums=True))

    def forward(self, query: Tensor, key: Tensor, value: Tensor, input_gate: Tensor, forget_gate: Tensor) -> Tensor:
        """``query`` and ``key`` ``[tokens, heads, key_dim]``, ``value`` ``[tokens, heads, value_dim]``, the gates
        ``[tokens, heads]``, to what values are like.
        """
        query, key = query.to(value.dtype), key.to(value.dtype)
        return self.run(value, query=query, key=key, value=value, input_gate=input_gate, forget_gate=forget_gate)
