"""Writing latents and rotated keys of new tokens into the cache of multi-head latent attention."""

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton.cache_write import is_fp8, largest, write_heads


@triton.jit
def _mla_cache_write(
    cache, latent, rope_key, slots, scale, greatest, page_stride, slot_stride, latent_stride, rope_stride,
    LATENT: tl.constexpr, LATENT_PAD: tl.constexpr, ROPE: tl.constexpr, ROPE_PAD: tl.constexpr,
    PAGE: tl.constexpr, FP8: tl.constexpr,
):  # fmt: skip
    """Program: a token, whose latent and rotated key are written as one head each."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token).to(tl.int64)
    if slot < 0:
        return
    write_heads(
        cache, latent + token * latent_stride, slot, scale, greatest, page_stride, slot_stride, 0, 0,
        1, 1, LATENT, LATENT_PAD, PAGE, FP8,
    )  # fmt: skip
    write_heads(
        cache + LATENT, rope_key + token * rope_stride, slot, scale, greatest, page_stride, slot_stride, 0, 0,
        1, 1, ROPE, ROPE_PAD, PAGE, FP8,
    )  # fmt: skip


def mla_cache_write(
    *,
    cache: torch.Tensor,
    latent: torch.Tensor,
    rope_key: torch.Tensor,
    slot_mapping: torch.Tensor,
    cache_scale: float = 1.0,
) -> None:
    """Latent [T, latent_dim] and rope_key [T, rope_dim] go to slots [T] of cache [pages, page, latent_dim + rope_dim].

    Slots and 8 bits are as in `cache_write`.
    """
    tokens, latent_dim = latent.shape
    rope_dim = rope_key.shape[1]
    if not tokens:
        return
    _mla_cache_write[(tokens,)](
        cache, latent, rope_key, slot_mapping, cache_scale, largest(cache.dtype), *cache.stride()[:2],
        latent.stride(0), rope_key.stride(0), LATENT=latent_dim, LATENT_PAD=triton.next_power_of_2(latent_dim),
        ROPE=rope_dim, ROPE_PAD=triton.next_power_of_2(rope_dim), PAGE=cache.shape[1], FP8=is_fp8(cache.dtype),
        num_warps=4,
    )  # fmt: skip
