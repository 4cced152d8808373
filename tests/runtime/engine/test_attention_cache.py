"""The views of a KV cache block."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from kunport_runtime.engine.attention.cache import pages

SMALL = st.integers(1, 5)


def block_view(blocks: int, heads: int, tokens: int, content: int, padding: int) -> torch.Tensor:
    """What vLLM hands a layer: heads inside tokens inside blocks, whose ends may be padded; counted through."""
    stride = heads * tokens * content + padding
    raw = torch.arange(blocks * stride + 7)
    return raw.as_strided((blocks, heads, tokens, content), (stride, content, heads * content, 1), 7)


@given(blocks=SMALL, heads=SMALL, tokens=SMALL, key=SMALL, value=SMALL, padding=st.integers(0, 3))
def test_keys_and_values_fill_a_block_once_and_nothing_else(blocks, heads, tokens, key, value, padding):
    cache = block_view(blocks, heads, tokens, key + value, padding)
    keys, values = pages(cache, key)
    assert keys.shape == (blocks, tokens, heads, key)
    assert values.shape == (blocks, tokens, heads, value)
    for block in range(blocks):
        assert keys[block].is_contiguous()
        assert values[block].is_contiguous()
        both = torch.cat((keys[block].flatten(), values[block].flatten()))
        assert torch.equal(both, cache[block].flatten().sort().values)


def test_they_are_views():
    cache = block_view(2, 1, 2, 4, 0)
    keys, values = pages(cache, 2)
    keys.fill_(-1)
    values.fill_(-2)
    assert sorted(set(cache.flatten().tolist())) == [-2, -1]


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_eight_bits_are_stored_as_such(dtype):
    keys, _ = pages(torch.zeros(2, 3, 4, 8, dtype=torch.uint8).view(dtype), 4)
    assert keys.dtype == dtype
