"""Rotary position embedding in place, alone or after a norm of queries and keys, with the cache write behind it.

(Su et al. 2021, "RoFormer".) A program takes one token's query heads, or its key-value heads. The two elements of a
pair lie in one thread's registers, so that rotating in place needs no barrier.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton import tuning
from kunport_runtime.providers.triton.cache_write import is_fp8, largest, store, write_heads

DEFAULTS: tuning.Config = {"warps": 4}


@triton.jit
def _angles(
    cos_sin, positions, token, cos_sin_stride, axis_stride,
    HALF: tl.constexpr, HALF_PAD: tl.constexpr, AXES: tl.constexpr, BLOCKS: tl.constexpr,
    FIRST: tl.constexpr, SECOND: tl.constexpr, THIRD: tl.constexpr, FOURTH: tl.constexpr,
):  # fmt: skip
    """Cosines and sines [HALF_PAD] of a token; with several AXES each frequency takes its position from one of them.

    FIRST .. FOURTH: frequencies of each axis; BLOCKS: they lie one axis after the other, else in turn while they last.
    """
    frequency = tl.arange(0, HALF_PAD)
    if AXES == 1:
        position = tl.load(positions + token).to(tl.int64)
    else:
        if BLOCKS:
            axis = (frequency >= FIRST).to(tl.int32) + (frequency >= FIRST + SECOND).to(tl.int32)
            axis += (frequency >= FIRST + SECOND + THIRD).to(tl.int32)
        else:
            axis = frequency % AXES
            count = tl.where(axis < 2, tl.where(axis == 0, FIRST, SECOND), tl.where(axis == 2, THIRD, FOURTH))
            axis = tl.where(frequency < AXES * count, axis, 0)
        axis = tl.minimum(axis, AXES - 1)
        position = tl.load(positions + axis * axis_stride + token).to(tl.int64)
    row = cos_sin + position * cos_sin_stride + frequency
    cos = tl.load(row, mask=frequency < HALF, other=0.0).to(tl.float32)
    sin = tl.load(row + HALF, mask=frequency < HALF, other=0.0).to(tl.float32)
    return cos, sin


@triton.jit
def _square_sum(x, DTYPE: tl.constexpr, CAST: tl.constexpr):
    squares = x * x
    if CAST == "none":
        squares = squares.to(DTYPE).to(tl.float32)
    return tl.sum(squares, 1, keep_dims=True)


@triton.jit
def _scaled(x, root, weight, offset, DTYPE: tl.constexpr, CAST: tl.constexpr):
    """X times root times weight + offset, rounded to DTYPE where CAST says so, and at the end."""
    y = x * root
    if CAST != "after_weight":
        y = y.to(DTYPE).to(tl.float32)
    scale = weight + offset
    if CAST == "none":
        scale = scale.to(DTYPE).to(tl.float32)
    return (y * scale).to(DTYPE).to(tl.float32)


@triton.jit
def _rotate_heads(
    vectors, weight, cos, sin, epsilon, offset, head_stride,
    cache, slot, page_stride, slot_stride, cache_head_stride, scale, largest,
    HEADS: tl.constexpr, HEADS_PAD: tl.constexpr, D: tl.constexpr, HALF: tl.constexpr, HALF_PAD: tl.constexpr,
    REST_PAD: tl.constexpr, INTERLEAVED: tl.constexpr, CAST: tl.constexpr, ALL_HEADS: tl.constexpr,
    PAGE: tl.constexpr, FP8: tl.constexpr,
):  # fmt: skip
    """Rotate one token's vectors [HEADS, D] in place; weight None: no norm; cache None: no cache write.

    `slot`: where in the cache; nowhere if negative.
    """
    DTYPE: tl.constexpr = vectors.dtype.element_ty
    head = tl.arange(0, HEADS_PAD)[:, None]
    pair = tl.arange(0, HALF_PAD)[None, :]
    inside = (head < HEADS) & (pair < HALF)
    if INTERLEAVED:
        one = 2 * pair
        other = one + 1
    else:
        one = pair
        other = pair + HALF
    x = tl.load(vectors + head * head_stride + one, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(vectors + head * head_stride + other, mask=inside, other=0.0).to(tl.float32)
    if D > 2 * HALF:  # what does not rotate
        rest = 2 * HALF + tl.arange(0, REST_PAD)[None, :]
        rest_inside = (head < HEADS) & (rest < D)
        z = tl.load(vectors + head * head_stride + rest, mask=rest_inside, other=0.0).to(tl.float32)
    if weight is not None:
        total = _square_sum(x, DTYPE, CAST) + _square_sum(y, DTYPE, CAST)
        if D > 2 * HALF:
            total += _square_sum(z, DTYPE, CAST)
        if ALL_HEADS:
            mean = tl.sum(total, 0, keep_dims=True) / (HEADS * D)
            of_head = head * D
        else:
            mean = total / D
            of_head = head * 0
        if CAST == "none":
            mean = (mean.to(DTYPE).to(tl.float32) + epsilon).to(DTYPE).to(tl.float32)
            root = tl.rsqrt(mean).to(DTYPE).to(tl.float32)
        else:
            root = tl.rsqrt(mean + epsilon)
        x = _scaled(
            x, root, tl.load(weight + of_head + one, mask=inside, other=0.0).to(tl.float32), offset, DTYPE, CAST
        )
        y = _scaled(
            y, root, tl.load(weight + of_head + other, mask=inside, other=0.0).to(tl.float32), offset, DTYPE, CAST
        )
        if D > 2 * HALF:
            w = tl.load(weight + of_head + rest, mask=rest_inside, other=0.0).to(tl.float32)
            z = _scaled(z, root, w, offset, DTYPE, CAST)
            tl.store(vectors + head * head_stride + rest, z.to(DTYPE), mask=rest_inside)
    turned = (x * cos[None, :] - y * sin[None, :]).to(DTYPE)
    turned_other = (y * cos[None, :] + x * sin[None, :]).to(DTYPE)
    tl.store(vectors + head * head_stride + one, turned, mask=inside)
    tl.store(vectors + head * head_stride + other, turned_other, mask=inside)
    if cache is not None:
        row = cache + slot // PAGE * page_stride + slot % PAGE * slot_stride + head * cache_head_stride
        written = head < tl.where(slot < 0, 0, HEADS)
        store(row + one, turned.to(tl.float32), scale, largest, inside & written, FP8)
        store(row + other, turned_other.to(tl.float32), scale, largest, inside & written, FP8)
        if D > 2 * HALF:
            store(row + rest, z, scale, largest, rest_inside & written, FP8)


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
    CAST: tl.constexpr, ALL_HEADS: tl.constexpr, PAGE: tl.constexpr, FP8: tl.constexpr,
):  # fmt: skip
    """Program (token, 0 for the query's heads, 1 for the key's and value's)."""
    token = tl.program_id(0).to(tl.int64)
    cos, sin = _angles(
        cos_sin,
        positions,
        token,
        cos_sin_stride,
        axis_stride,
        HALF,
        HALF_PAD,
        AXES,
        BLOCKS,
        FIRST,
        SECOND,
        THIRD,
        FOURTH,
    )
    if tl.program_id(1) == 0:
        _rotate_heads(
            query + token * query_token_stride, query_weight, cos, sin, epsilon, offset, query_head_stride,
            None, 0, 0, 0, 0, 1.0, 0.0,
            HEADS, HEADS_PAD, D, HALF, HALF_PAD, REST_PAD, INTERLEAVED, CAST, ALL_HEADS, PAGE, False,
        )  # fmt: skip
    else:
        slot = 0
        if keys is not None:
            slot = tl.load(slots + token).to(tl.int64)
        _rotate_heads(
            key + token * key_token_stride, key_weight, cos, sin, epsilon, offset, key_head_stride,
            keys, slot, keys_page_stride, keys_slot_stride, keys_head_stride, key_scale, largest,
            KEY_HEADS, KEY_HEADS_PAD, D, HALF, HALF_PAD, REST_PAD, INTERLEAVED, CAST, ALL_HEADS, PAGE, FP8,
        )  # fmt: skip
        if keys is not None:
            if slot >= 0:
                write_heads(
                    values, value + token * value_token_stride, slot, value_scale, largest,
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
    norm = _Norm(query_weight, key_weight, epsilon, offset, cast, span)
    _launch("qk_norm_rope", query, key, positions, cos_sin_cache, pairing, norm=norm)


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
    norm = _Norm(query_weight, key_weight, epsilon, offset, cast, span)
    cache = _Cache(value, key_cache, value_cache, slot_mapping, key_scale, value_scale)
    _launch("qk_norm_rope_cache_write", query, key, positions, cos_sin_cache, pairing, norm=norm, cache=cache)


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
    norm: _Norm = _Norm(),
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
    _rope[(tokens, 1 if key is None else 2)](
        query, key, cache.value, positions, cos_sin, norm.query_weight, norm.key_weight,
        cache.keys, cache.values, cache.slots, norm.epsilon, norm.offset, cache.key_scale, cache.value_scale,
        largest(cache.keys.dtype) if cache.keys is not None else 0.0,
        cos_sin.stride(0), positions.stride(0) if axes > 1 else 0,
        *query.stride()[:2], *(key.stride()[:2] if key is not None else (0, 0)), *cache.strides(),
        HEADS=heads, HEADS_PAD=triton.next_power_of_2(heads),
        KEY_HEADS=key_heads, KEY_HEADS_PAD=triton.next_power_of_2(key_heads),
        D=size, HALF=half, HALF_PAD=triton.next_power_of_2(half),
        REST_PAD=triton.next_power_of_2(max(1, size - 2 * half)), INTERLEAVED=pairing == "interleaved",
        AXES=axes, BLOCKS=order == "blocks", FIRST=first, SECOND=second, THIRD=third, FOURTH=fourth,
        CAST=norm.cast, ALL_HEADS=norm.span == "all_heads", **cache.constants(), num_warps=config["warps"],
    )  # fmt: skip
