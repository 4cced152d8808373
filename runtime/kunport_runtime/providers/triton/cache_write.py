"""Writing keys and values of new tokens into the paged cache, in its dtype."""

import torch
import triton
import triton.language as tl


@triton.jit
def store(pointers, values, scale, largest, mask, FP8: tl.constexpr):
    """Store values float32; FP8: divided by scale and cut to the dtype's finite range first."""
    if FP8:
        values = tl.minimum(tl.maximum(values / scale, -largest), largest)
    tl.store(pointers, values.to(pointers.dtype.element_ty), mask=mask)


@triton.jit
def write_heads(
    cache, vectors, slot, scale, largest, page_stride, slot_stride, head_stride, vector_stride,
    HEADS: tl.constexpr, HEADS_PAD: tl.constexpr, SIZE: tl.constexpr, SIZE_PAD: tl.constexpr,
    PAGE: tl.constexpr, FP8: tl.constexpr,
):  # fmt: skip
    """Copy one token's vectors [HEADS, SIZE] into its slot."""
    head = tl.arange(0, HEADS_PAD)[:, None]
    column = tl.arange(0, SIZE_PAD)[None, :]
    inside = (head < HEADS) & (column < SIZE)
    values = tl.load(vectors + head * vector_stride + column, mask=inside, other=0.0).to(tl.float32)
    place = slot // PAGE * page_stride + slot % PAGE * slot_stride
    store(cache + place + head * head_stride + column, values, scale, largest, inside, FP8)


@triton.jit
def _cache_write(
    keys, values, key, value, slots, key_scale, value_scale, largest,
    key_page_stride, key_slot_stride, key_head_stride, value_page_stride, value_slot_stride, value_head_stride,
    key_token_stride, key_vector_stride, value_token_stride, value_vector_stride,
    HEADS: tl.constexpr, HEADS_PAD: tl.constexpr, D: tl.constexpr, D_PAD: tl.constexpr,
    DV: tl.constexpr, DV_PAD: tl.constexpr, PAGE: tl.constexpr, FP8: tl.constexpr,
):  # fmt: skip
    """Program: a token."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token).to(tl.int64)
    if slot < 0:
        return
    write_heads(
        keys, key + token * key_token_stride, slot, key_scale, largest, key_page_stride, key_slot_stride,
        key_head_stride, key_vector_stride, HEADS, HEADS_PAD, D, D_PAD, PAGE, FP8,
    )  # fmt: skip
    write_heads(
        values, value + token * value_token_stride, slot, value_scale, largest, value_page_stride, value_slot_stride,
        value_head_stride, value_vector_stride, HEADS, HEADS_PAD, DV, DV_PAD, PAGE, FP8,
    )  # fmt: skip


def cache_write(
    *,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    slot_mapping: torch.Tensor,
    key_scale: float = 1.0,
    value_scale: float = 1.0,
) -> None:
    """Key [T, KH, D] and value [T, KH, DV] go to slots [T] of key_cache [pages, page, KH, D] and value_cache.

    slot = page number * page + offset; negative slots are skipped. An fp8 cache holds value / scale, cut to its range.
    """
    tokens, heads, size = key.shape
    if not tokens:
        return
    value_size = value.shape[2]
    fp8 = is_fp8(key_cache.dtype)
    _cache_write[(tokens,)](
        key_cache, value_cache, key, value, slot_mapping, key_scale, value_scale, largest(key_cache.dtype),
        *key_cache.stride()[:3], *value_cache.stride()[:3], *key.stride()[:2], *value.stride()[:2],
        HEADS=heads, HEADS_PAD=triton.next_power_of_2(heads), D=size, D_PAD=triton.next_power_of_2(size),
        DV=value_size, DV_PAD=triton.next_power_of_2(value_size), PAGE=key_cache.shape[1], FP8=fp8, num_warps=4,
    )  # fmt: skip


def is_fp8(dtype: torch.dtype) -> bool:
    return dtype in (torch.float8_e4m3fn, torch.float8_e5m2)


def largest(dtype: torch.dtype) -> float:
    """The greatest finite number of a dtype."""
    return float(torch.finfo(dtype).max)
