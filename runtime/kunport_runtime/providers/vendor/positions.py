"""Rotary position embeddings, in place: the vendor takes all heads of a token as one contiguous row."""

from __future__ import annotations

from torch import Tensor

from kunport_runtime.providers.vendor.operands import in_place
from kunport_runtime.providers.vendor.wheel import installed_wheel


def rotary_embedding(query: Tensor, key: Tensor, positions: Tensor, cos_sin_cache: Tensor, pairing: str) -> None:
    """The part of a head that turns is as wide as the table."""
    rotate = installed_wheel().operator("rotary_embedding")
    with in_place(query, key) as (queries, keys):
        rotate(
            positions=positions,
            query=queries,
            key=keys,
            head_size=query.shape[-1],
            cos_sin_cache=cos_sin_cache,
            is_neox=pairing == "half",
        )


def mrotary_embedding(
    query: Tensor,
    key: Tensor,
    positions: Tensor,
    cos_sin_cache: Tensor,
    sections: tuple[int, ...],
    pairing: str,
    order: str,
) -> None:
    """By halves, with the axes in blocks."""
    rotate = installed_wheel().operator("mrotary_embedding_neox")
    with in_place(query, key) as (queries, keys):
        rotate(positions.contiguous(), queries, keys, query.shape[-1], cos_sin_cache, list(sections))
