"""Rotary embeddings. vLLM has a class for each way to scale the frequencies; all of them rotate alike."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from vllm.model_executor.layers import rotary_embedding as vllm_rope
from vllm.model_executor.layers.rotary_embedding.base import RotaryEmbedding
from vllm.model_executor.layers.rotary_embedding.gemma4_rope import Gemma4RotaryEmbedding

from kunport_runtime import operators
from kunport_runtime.engine.layers.naming import Named, counted
from kunport_runtime.operators.accounting import layer


class Rotation(Named):
    """The rotation, mixed in before a class that makes the table of cosines and sines."""

    operators: tuple[str, ...] = ("rotary_embedding",)

    @counted
    def forward_oot(
        self: Any, positions: Tensor, query: Tensor, key: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Rotate ``query`` and ``key`` ``[tokens, heads * head_dim]`` in place, at ``positions`` ``[tokens]``."""
        operators.rotary_embedding(
            query=self._heads(query),
            key=None if key is None else self._heads(key),
            positions=positions.flatten(),
            cos_sin_cache=self._match_cos_sin_cache_dtype(query),
            pairing=self._pairing,
        )
        return query, key

    @property
    def _pairing(self: Any) -> str:
        return "half" if self.is_neox_style else "interleaved"

    def _heads(self: Any, packed: Tensor) -> Tensor:
        """``[tokens, heads, head_dim]``, a view: the operator works in place."""
        return packed if packed.dim() == 3 else packed.unflatten(-1, (-1, self.head_size))


PLAIN = (
    RotaryEmbedding,
    vllm_rope.DynamicNTKAlphaRotaryEmbedding,
    vllm_rope.DynamicNTKScalingRotaryEmbedding,
    vllm_rope.LinearScalingRotaryEmbedding,
    vllm_rope.Llama3RotaryEmbedding,
    vllm_rope.NTKScalingRotaryEmbedding,
    vllm_rope.YaRNScalingRotaryEmbedding,
    Gemma4RotaryEmbedding,
)
"""vLLM's classes whose rotation is `Rotation`."""


class MRotaryEmbedding(Rotation, vllm_rope.MRotaryEmbedding):
    """Positions on several axes, of images; on one axis, of text, it is the plain rotation."""

    operators = ("mrotary_embedding", "rotary_embedding")

    def forward_oot(
        self, positions: Tensor, query: Tensor, key: Tensor | None = None, offsets: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """As `Rotation`'s, at ``positions`` ``[tokens]`` or ``[axes, tokens]``."""
        if positions.dim() == 1:
            return super().forward_oot(positions, query, key)
        with layer(self.layer_name):
            operators.mrotary_embedding(
                query=self._heads(query),
                key=None if key is None else self._heads(key),
                positions=positions,
                cos_sin_cache=self._match_cos_sin_cache_dtype(query),
                sections=tuple(self.mrope_section),
                pairing=self._pairing,
                order="interleaved" if self.mrope_interleaved else "blocks",
            )
        return query, key


def rotating(vllm_class: type) -> type:
    """``vllm_class`` with kunport's rotation."""
    return type(vllm_class.__name__, (Rotation, vllm_class), {"__module__": __name__, "__doc__": vllm_class.__doc__})
