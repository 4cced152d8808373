"""The KV cache of a layer as the operators want it.

vLLM hands each layer a view with logical shape ``[blocks, kv_heads, block_size, content]``, content being a key and a
value, in the memory order of the layout that the backend asked for: blocks, then tokens, then heads. A block's bytes
are the backend's to arrange. The contract wants pages of whole rows, so a block holds all its keys, then all values:
``[block_size, kv_heads, head_dim]`` contiguous each, and a token's keys of all heads lie side by side. On Kunlun a
head's keys of all tokens do: blocks hold keys and values by turns, which the vendor's attention knows.

What moves, copies or clears whole blocks needs to know none of this. What splits a block by heads (a transfer of the
cache between engines of different tensor-parallel size) would have to.
"""

from __future__ import annotations

from torch import SymInt, Tensor


def pages(kv_cache: Tensor, head_dim: int, heads_first: bool = False) -> tuple[Tensor, Tensor]:
    """Keys and values of a layer, as views.

    Args:
        kv_cache: ``[blocks, kv_heads, block_size, head_dim + value_dim]``, heads inside tokens inside blocks in memory.
        head_dim: elements of a key.
        heads_first: whether a block holds all tokens of one head before those of the next, as Kunlun's operators want
            it, and not all heads of one token.

    Returns:
        ``[blocks, block_size, kv_heads, head_dim]`` and ``[blocks, block_size, kv_heads, value_dim]``, each block
        without gaps.
    """
    blocks, heads, block_size, content = kv_cache.shape
    value_dim = content - head_dim
    block_stride, start = kv_cache.stride(0), kv_cache.storage_offset()

    def view(dim: int, offset: int | SymInt) -> Tensor:
        token, head = (dim, block_size * dim) if heads_first else (heads * dim, dim)
        return kv_cache.as_strided((blocks, block_size, heads, dim), (block_stride, token, head, 1), offset)

    return view(head_dim, start), view(value_dim, start + block_size * heads * head_dim)
