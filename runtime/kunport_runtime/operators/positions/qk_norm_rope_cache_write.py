"""The RMS norm and rotation of `qk_norm_rope`, then `cache_write` of the key and its value, in one pass."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kunport_runtime.operators.attention import cache_write
from kunport_runtime.operators.contract import Case, Contract, reads
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.positions import qk_norm_rope
from kunport_runtime.operators.positions.rotary_embedding import LIMITS


def reference(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    key_scale: float,
    value_scale: float,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    query_weight: torch.Tensor,
    key_weight: torch.Tensor,
    epsilon: float,
    offset: float,
    cast: str,
    span: str,
    pairing: str,
) -> None:
    """One after the other."""
    qk_norm_rope.reference(
        query, key, positions, cos_sin_cache, query_weight, key_weight, epsilon, offset, cast, span, pairing
    )
    cache_write.reference(key_cache, value_cache, key, value, slot_mapping, key_scale, value_scale)


def cases(draw: Draw) -> Iterator[Case]:
    """Those of `qk_norm_rope`, each with a cache."""
    for form, dtype in zip(qk_norm_rope.FORMS, (draw.dtype, torch.float8_e4m3fn, draw.dtype), strict=True):
        arguments = qk_norm_rope.draw_arguments(draw, *form)
        _, _, _, tokens, _, kv_heads, head_dim, _ = form
        cache = cache_write.draw_arguments(draw, tokens, kv_heads, head_dim, head_dim, 16, dtype)
        yield Case(f"{form[0]}, cast {form[1]}, {form[2]}, cache {dtype}", {**cache, **arguments})


CONTRACT = Contract(
    name="qk_norm_rope_cache_write",
    arguments=(
        *cache_write.CACHES,
        *qk_norm_rope.ARGUMENTS,
        reads("value", "tokens, kv_heads, value_dim", "of each token", like="query"),
        cache_write.SLOTS,
        *cache_write.SCALES,
    ),
    reference=reference,
    cases=cases,
    tolerance=qk_norm_rope.TOLERANCE,
    dtype_of="query",
    limits=LIMITS,
)
