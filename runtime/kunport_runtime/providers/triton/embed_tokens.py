"""The rows of a table that tokens name."""

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton import tuning

# `block`: columns of a row that a program takes.
DEFAULTS: tuning.Config = {"block": 2048, "warps": 4}


@triton.jit
def _embed_tokens(out, ids, table, scale, first, vocab, hidden, out_stride, table_stride, BLOCK: tl.constexpr):
    """Program (token, block of columns), blocks fastest."""
    blocks = tl.cdiv(hidden, BLOCK)
    token = (tl.program_id(0) // blocks).to(tl.int64)
    column = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(ids + token).to(tl.int64) - first
    known = (row >= 0) & (row < vocab)
    values = tl.load(table + row * table_stride + column, mask=tl.where(known, column < hidden, False), other=0.0).to(
        tl.float32
    )
    tl.store(out + token * out_stride + column, (values * scale).to(out.dtype.element_ty), mask=column < hidden)


def embed_tokens(
    *, out: torch.Tensor, ids: torch.Tensor, table: torch.Tensor, scale: float = 1.0, first: int = 0
) -> None:
    """Out [tokens, hidden]: the rows of table [vocab, hidden] at ids [tokens] - first, times scale; zeros outside."""
    tokens, hidden = out.shape
    if not tokens:
        return
    config = tuning.lookup("embed_tokens", table.dtype, table.device, DEFAULTS, rows=tokens, size=hidden)
    block = min(config["block"], triton.next_power_of_2(hidden))
    _embed_tokens[(tokens * triton.cdiv(hidden, block),)](
        out, ids, table, scale, first, table.shape[0], hidden, out.stride(0), table.stride(0),
        BLOCK=block, num_warps=config["warps"],
    )  # fmt: skip
