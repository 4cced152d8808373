"""What the kernels of paged attention are given, and the sizes that follow from it."""

from dataclasses import dataclass

import torch
import triton

from kunport_runtime.providers.triton.softmax import LOG2E
from kunport_runtime.providers.triton.tuning import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedArguments:
    """Arguments of `paged_attention`, which says what they are."""

    out: torch.Tensor
    query: torch.Tensor
    key_cache: torch.Tensor
    value_cache: torch.Tensor
    block_tables: torch.Tensor
    query_start_loc: torch.Tensor
    seq_lens: torch.Tensor
    max_query_len: int
    max_seq_len: int
    scale: float
    window: int = 0
    softcap: float = 0.0
    sinks: torch.Tensor | None = None
    alibi_slopes: torch.Tensor | None = None
    key_scale: float = 1.0
    value_scale: float = 1.0

    @property
    def sequences(self) -> int:
        return self.seq_lens.shape[0]

    @property
    def page(self) -> int:
        """Tokens a page."""
        return self.key_cache.shape[1]

    @property
    def key_heads(self) -> int:
        return self.key_cache.shape[2]

    @property
    def group(self) -> int:
        """Query heads a key-value head."""
        return self.query.shape[1] // self.key_heads

    def fitted(self, config: Config) -> Config:
        """Smaller tiles, fewer stages and more warps where heads are wider than the 256 bytes that tables are for."""
        width = max(self.key_cache.shape[3], self.value_cache.shape[3]) * self.query.element_size()
        times = triton.next_power_of_2(width) // 256
        if times <= 1:
            return config
        tiles = {
            name: max(min(config[name], 16), config[name] // times) for name in ("rows", "block") if name in config
        }
        return config | tiles | {"stages": min(config["stages"], 3), "warps": min(config["warps"] * times, 8)}

    def strides(self) -> tuple[int, ...]:
        """Strides in the order that the kernels take them; the last dimension of every tensor has stride 1."""
        return (
            *self.out.stride()[:2], *self.query.stride()[:2],
            *self.key_cache.stride()[:3], *self.value_cache.stride()[:3], self.block_tables.stride(0),
        )  # fmt: skip

    def numbers(self) -> tuple[float, float, float, int]:
        """The kernels' factor, inner, value_scale and window: scores in units of log2, fp8's scales folded in.

        The factor of capped scores is twice the cap: see `softmax.transform`.
        """
        scale = self.scale * self.key_scale
        factor = (2.0 * self.softcap or scale) * LOG2E.value
        return factor, scale / self.softcap if self.softcap else 0.0, self.value_scale, self.window

    def constants(self) -> dict[str, int | bool]:
        """The constants that both kernels are compiled with."""
        size, value_size = self.key_cache.shape[3], self.value_cache.shape[3]
        return {
            "GROUP": self.group, "PAGE": self.page, "D": size, "DV": value_size,
            "D_PAD": max(16, triton.next_power_of_2(size)), "DV_PAD": max(16, triton.next_power_of_2(value_size)),
            "WINDOW": self.window > 0, "SOFTCAP": self.softcap > 0,
            "ALIBI": self.alibi_slopes is not None, "SINKS": self.sinks is not None,
            "ALIKE": size == value_size and self.key_cache.stride() == self.value_cache.stride(),
            "WIDE": _spans_2_31(self.key_cache) or _spans_2_31(self.value_cache),
        }  # fmt: skip


def _spans_2_31(cache: torch.Tensor) -> bool:
    """Whether an offset into the cache may need 64 bits; with 32 the kernels are faster."""
    return sum((n - 1) * s for n, s in zip(cache.shape, cache.stride(), strict=True)) >= 2**31
