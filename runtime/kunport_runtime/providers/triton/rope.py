"""Rotary position embedding in place, alone or after a norm of queries and keys, with the cache write behind it.

(Su et al. 2021, "RoFormer".) A program takes a token, or a part of its heads: all of them are loaded before one is
stored, and with the same layout of threads, so that rotating in place needs no barrier.
"""

import math
from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton import tuning
from kunport_runtime.providers.triton.cache_write import is_fp8, largest, write_heads
from kunport_runtime.providers.triton.rope_heads import angles, load_heads, norm, store_heads

# `parts`: programs of a token, where its heads can be shared out so.
DEFAULTS: tuning.Config = {"warps": 4, "parts": 1}


@triton.jit
def _rope(
    query, key, value, positions, cos_sin, query_weight, key_weight, keys, values, slots,
    epsilon, offset, key_scale, value_scale, largest, cos_sin_stride, axis_stride,
    query_token_stride, query_head_stride, key_token_stride, key_head_stride, value_token_stride, value_head_stride,
    keys_page_stride, keys_slot_stride, keys_head_stride, values_page_stride, values_slot_stride, values_head_stride,
    HEADS: tl.constexpr, HEADS_PAD: tl.constexpr, KEY_HEADS: tl.constexpr, KEY_HEADS_PAD: tl.constexpr,
    D: tl.constexpr, DV: tl.constexpr, DV_PAD: tl.constexpr,
    HALF: tl.constexpr, HALF_PAD: tl.constexpr, REST_PAD: tl.constexpr, INTERLEAVED: tl.constexpr,
    AXES: tl.constexpr, BLOCKS: tl.constexpr,
    FIRST: tl.constexpr, SECOND: tl.constexpr, THIRD: tl.constexpr, FOURTH: tl.constexpr,
    CAST: tl.constexpr, ALL_HEADS: tl.constexpr, PAGE: tl.constexpr, FP8: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Program (token, part): HEADS of the query heads and KEY_HEADS of the others.

    Everything is loaded before anything waits: the position decides where the cosines are.
    """
    DTYPE: tl.constexpr = query.dtype.element_ty
    token = (tl.program_id(0) // PARTS).to(tl.int64)
    part = tl.program_id(0) % PARTS
    query += token * query_token_stride + part * HEADS * query_head_stride
    x, y, z = load_heads(query, query_head_stride, HEADS, HEADS_PAD, D, HALF, HALF_PAD, REST_PAD, INTERLEAVED)
    if key is not None:
        key += token * key_token_stride + part * KEY_HEADS * key_head_stride
        a, b, c = load_heads(key, key_head_stride, KEY_HEADS, KEY_HEADS_PAD, D, HALF, HALF_PAD, REST_PAD, INTERLEAVED)
    cos, sin = angles(
        cos_sin, positions, token, cos_sin_stride, axis_stride,
        HALF, HALF_PAD, AXES, BLOCKS, FIRST, SECOND, THIRD, FOURTH,
    )  # fmt: skip
    if query_weight is not None:
        x, y, z = norm(
            x, y, z, query_weight, epsilon, offset, DTYPE, HEADS, HEADS_PAD, D, HALF, HALF_PAD, REST_PAD,
            INTERLEAVED, CAST, ALL_HEADS,
        )  # fmt: skip
    store_heads(
        query, x * cos - y * sin, y * cos + x * sin, z, query_head_stride, HEADS, 1.0, 0.0, HEADS_PAD, D,
        HALF, HALF_PAD, REST_PAD, INTERLEAVED, query_weight is None, False,
    )  # fmt: skip
    if key is not None:
        if key_weight is not None:
            a, b, c = norm(
                a, b, c, key_weight, epsilon, offset, DTYPE, KEY_HEADS, KEY_HEADS_PAD, D, HALF, HALF_PAD, REST_PAD,
                INTERLEAVED, CAST, ALL_HEADS,
            )  # fmt: skip
        turned = (a * cos - b * sin).to(DTYPE).to(tl.float32)
        turned_other = (b * cos + a * sin).to(DTYPE).to(tl.float32)
        store_heads(
            key, turned, turned_other, c, key_head_stride, KEY_HEADS, 1.0, 0.0, KEY_HEADS_PAD, D,
            HALF, HALF_PAD, REST_PAD, INTERLEAVED, key_weight is None, False,
        )  # fmt: skip
        if keys is not None:
            slot = tl.load(slots + token).to(tl.int64)
            if slot >= 0:
                keys += part * KEY_HEADS * keys_head_stride
                values += part * KEY_HEADS * values_head_stride
                value += token * value_token_stride + part * KEY_HEADS * value_head_stride
                store_heads(
                    keys + slot // PAGE * keys_page_stride + slot % PAGE * keys_slot_stride, turned, turned_other, c,
                    keys_head_stride, KEY_HEADS, key_scale, largest, KEY_HEADS_PAD, D,
                    HALF, HALF_PAD, REST_PAD, INTERLEAVED, False, FP8,
                )  # fmt: skip
                write_heads(
                    values, value, slot, value_scale, largest,
                    values_page_stride, values_slot_stride, values_head_stride, value_head_stride,
                    KEY_HEADS, KEY_HEADS_PAD, DV, DV_PAD, PAGE, FP8,
                )  # fmt: skip


def rotary_embedding(
    *,
    query: torch.Tensor,
    key: torch.Tensor | None,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    pairing: str = "half",
) -> None:
    """Rotate query [T, H, D] and key [T, KH, D] in place by the angles of positions [T].

    cos_sin_cache [positions, 2 * R]: R cosines, then R sines; the first 2 * R elements of a head rotate. pairing
    "half": elements i and i + R are a pair; "interleaved": 2 i and 2 i + 1.
    """
    _launch("rotary_embedding", query, key, positions, cos_sin_cache, pairing)


def mrotary_embedding(
    *,
    query: torch.Tensor,
    key: torch.Tensor | None,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    sections: tuple[int, ...],
    pairing: str = "half",
    order: str = "blocks",
) -> None:
    """`rotary_embedding` with positions [axes, T], at most four axes: each frequency follows one of them.

    order "blocks": the first sections[0] frequencies follow axis 0, the next sections[1] axis 1, and so on;
    "interleaved": frequency i follows axis i % axes while i < axes * sections[i % axes], else axis 0.
    """
    _launch("mrotary_embedding", query, key, positions, cos_sin_cache, pairing, sections=sections, order=order)


def qk_norm_rope(
    *,
    query: torch.Tensor,
    key: torch.Tensor,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    query_weight: torch.Tensor,
    key_weight: torch.Tensor,
    epsilon: float,
    offset: float = 0.0,
    cast: str = "before_weight",
    span: str = "head",
    pairing: str = "half",
) -> None:
    """`rms_norm` of each head (span "head") or of a token's heads together ("all_heads"), then `rotary_embedding`."""
    normed = _Norm(query_weight, key_weight, epsilon, offset, cast, span)
    _launch("qk_norm_rope", query, key, positions, cos_sin_cache, pairing, normed=normed)


def qk_norm_rope_cache_write(
    *,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    query_weight: torch.Tensor,
    key_weight: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    epsilon: float,
    offset: float = 0.0,
    cast: str = "before_weight",
    span: str = "head",
    pairing: str = "half",
    key_scale: float = 1.0,
    value_scale: float = 1.0,
) -> None:
    """`qk_norm_rope`, then `cache_write` of the rotated key and of value, in one pass over them."""
    normed = _Norm(query_weight, key_weight, epsilon, offset, cast, span)
    cache = _Cache(value, key_cache, value_cache, slot_mapping, key_scale, value_scale)
    _launch("qk_norm_rope_cache_write", query, key, positions, cos_sin_cache, pairing, normed=normed, cache=cache)


@dataclass(frozen=True, slots=True)
class _Norm:
    query_weight: torch.Tensor | None = None
    key_weight: torch.Tensor | None = None
    epsilon: float = 0.0
    offset: float = 0.0
    cast: str = "after_weight"
    span: str = "head"


@dataclass(frozen=True, slots=True)
class _Cache:
    value: torch.Tensor | None = None
    keys: torch.Tensor | None = None
    values: torch.Tensor | None = None
    slots: torch.Tensor | None = None
    key_scale: float = 1.0
    value_scale: float = 1.0

    def strides(self) -> tuple[int, ...]:
        if self.value is None or self.keys is None or self.values is None:
            return (0,) * 8
        return (*self.value.stride()[:2], *self.keys.stride()[:3], *self.values.stride()[:3])

    def constants(self) -> dict[str, int | bool]:
        if self.value is None or self.keys is None:
            return {"DV": 1, "DV_PAD": 1, "PAGE": 1, "FP8": False}
        size = self.value.shape[2]
        return {
            "DV": size, "DV_PAD": triton.next_power_of_2(size), "PAGE": self.keys.shape[1],
            "FP8": is_fp8(self.keys.dtype),
        }  # fmt: skip


def _launch(
    operator: str,
    query: torch.Tensor,
    key: torch.Tensor | None,
    positions: torch.Tensor,
    cos_sin: torch.Tensor,
    pairing: str,
    *,
    sections: tuple[int, ...] = (),
    order: str = "blocks",
    normed: _Norm = _Norm(),
    cache: _Cache = _Cache(),
) -> None:
    tokens, heads, size = query.shape
    if not tokens:
        return
    config = tuning.lookup(operator, query.dtype, query.device, DEFAULTS, rows=tokens, size=heads * size)
    half = cos_sin.shape[1] // 2
    key_heads = key.shape[1] if key is not None else 1
    axes = max(1, len(sections))
    first, second, third, fourth = (*sections, 0, 0, 0, 0)[:4]
    parts = (
        1 if normed.span == "all_heads" else math.gcd(config["parts"], heads, key.shape[1] if key is not None else 0)
    )
    heads, key_heads = heads // parts, max(1, key_heads // parts)
    _rope[(tokens * parts,)](
        query, key, cache.value, positions, cos_sin, normed.query_weight, normed.key_weight,
        cache.keys, cache.values, cache.slots, normed.epsilon, normed.offset, cache.key_scale, cache.value_scale,
        largest(cache.keys.dtype) if cache.keys is not None else 0.0,
        cos_sin.stride(0), positions.stride(0) if axes > 1 else 0,
        *query.stride()[:2], *(key.stride()[:2] if key is not None else (0, 0)), *cache.strides(),
        HEADS=heads, HEADS_PAD=triton.next_power_of_2(heads),
        KEY_HEADS=key_heads, KEY_HEADS_PAD=triton.next_power_of_2(key_heads),
        D=size, HALF=half, HALF_PAD=triton.next_power_of_2(half),
        REST_PAD=triton.next_power_of_2(max(1, size - 2 * half)), INTERLEAVED=pairing == "interleaved",
        AXES=axes, BLOCKS=order == "blocks", FIRST=first, SECOND=second, THIRD=third, FOURTH=fourth,
        CAST=normed.cast, ALL_HEADS=normed.span == "all_heads", PARTS=parts, **cache.constants(),
        num_warps=config["warps"],
    )  # fmt: skip
