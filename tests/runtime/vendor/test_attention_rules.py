"""Rules of attention and its caches, each broken by a test of its name."""

from __future__ import annotations

from typing import Any

import torch
from kunport_runtime.simulator import attention
from rule_breaking import hold, int32, raises, wrong


def prefill(**changed: Any) -> dict[str, Any]:
    """A prefill of two sequences over pages."""
    return {
        "q": torch.randn(5, 4, 32),
        "k": torch.randn(4, 2, 8, 32),
        "v": torch.randn(4, 2, 8, 32),
        "out": torch.empty(5, 4, 32),
        "is_causal": True,
        "is_prefix_cache": True,
        "block_table": torch.tensor([[0, 2], [1, 3]], dtype=torch.int32),
        "context_qlen_lod_cpu": int32(0, 2, 5),
        "context_qlen_lod_xpu": int32(0, 2, 5),
        "context_kvlen_lod_cpu": int32(0, 9, 12),
        "context_kvlen_lod_xpu": int32(0, 9, 12),
        "sink": torch.randn(4),
    } | changed


def decode(sequences: int = 2, **changed: Any) -> dict[str, Any]:
    """A decode over pages."""
    return {
        "out": torch.empty(sequences, 4, 32),
        "q": torch.randn(1, sequences, 4, 32),
        "k_cache": torch.randn(4, 2, 8, 32),
        "v_cache": torch.randn(4, 2, 8, 32),
        "context_lens_cpu": int32(*[9] * sequences),
        "context_lens_xpu": int32(*[9] * sequences),
        "batch_num": sequences,
        "qlen": 1,
        "max_context_len": 16,
        "head_num": 4,
        "head_dim": 32,
        "scale": 1.0,
        "kv_head_num": 2,
        "block_size": 8,
        "max_num_blocks_per_seq": 2,
        "block_tables": int32(*[0, 3] * sequences).view(sequences, 2),
        "sink": torch.randn(4),
    } | changed


def test_cache_layout():
    by_token = torch.randn(4, 8, 2, 32)
    hold(
        "cache_layout",
        attention.speculative_attention,
        decode(),
        {"k_cache": by_token},  # heads and tokens the wrong way round
        {"v_cache": by_token.transpose(1, 2)},  # the right shape, and gaps within a page
        {"k_cache": torch.randn(4, 3, 2, 8, 32)[:, 0]},  # two pages between two pages
    )
    rows = torch.randn(3, 2, 32)
    good = {"k": rows, "v": rows, "k_cache": by_token, "v_cache": by_token.clone(), "slot_mapping": int32(0, 1, 9)}
    hold("cache_layout", attention.reshape_and_cache_flash, good, {"BLHD_LAYOUT": False})
    latents = {"kv_c": torch.randn(2, 16), "k_pe": torch.randn(2, 8), "slot_mapping": int32(0, 3)}
    good = latents | {"kv_cache": torch.randn(2, 4, 24)}
    hold("cache_layout", attention.concat_and_cache_mla, good, {"kv_cache": torch.randn(2, 4, 32)[..., :24]})


def test_tables_doubled():
    both = torch.randn(4, 2, 2, 8, 32)  # blocks, keys and values, heads, tokens
    good = decode(k_cache=both[:, 0], v_cache=both[:, 1], block_tables=2 * decode()["block_tables"])
    hold("tables_doubled", attention.speculative_attention, good, {"block_tables": decode()["block_tables"]})
    expected = torch.empty_like(good["out"])
    plain = {"k_cache": both[:, 0].contiguous(), "v_cache": both[:, 1].contiguous()}
    attention.speculative_attention(**good | plain | {"out": expected, "block_tables": good["block_tables"] // 2})
    torch.testing.assert_close(good["out"], expected)


def test_tables_form():
    table = decode()["block_tables"]
    hold(
        "tables_form",
        attention.speculative_attention,
        decode(),
        {"block_tables": table.long()},
        {"block_tables": table.T.contiguous().T},
        {"block_tables": table[:, :1].contiguous(), "max_num_blocks_per_seq": 1},  # too few for the lengths
        {"max_num_blocks_per_seq": 3},
        {"block_tables": table + 4},  # pages that there are not
        {"block_tables": None},
    )
    hold("tables_form", attention.prefill_attention, prefill(), {"block_table": table[:1]})


def test_lengths_twice():
    hold(
        "lengths_twice",
        attention.prefill_attention,
        prefill(),
        {"context_kvlen_lod_xpu": int32(0, 8, 12)},
        {"context_qlen_lod_cpu": None},
        {"context_qlen_lod_xpu": None},
    )
    hold(
        "lengths_twice",
        attention.speculative_attention,
        decode(),
        {"context_lens_cpu": int32(9, 8)},
        {"context_lens_xpu": None},
        {"context_lens_cpu": torch.empty(2, dtype=torch.int32, device="meta")},
    )


def test_lod_form():
    def both(name: str, lod: torch.Tensor) -> dict[str, torch.Tensor]:
        return {f"context_{name}_lod_cpu": lod, f"context_{name}_lod_xpu": lod.clone()}

    hold(
        "lod_form",
        attention.prefill_attention,
        prefill(),
        both("qlen", int32(2, 3)),  # lengths instead of starts
        both("qlen", int32(0, 2, 4)),  # rows of nobody
        both("qlen", torch.tensor([0, 2, 5])),
        both("kvlen", int32(0, 12, 9)),
        both("kvlen", int32(0, 9)),
    )
    rows = torch.randn(5, 2, 32)
    dense = prefill(k=rows, v=rows, is_prefix_cache=False, block_table=None) | both("kvlen", int32(0, 2, 5))
    hold("lod_form", attention.prefill_attention, dense, both("kvlen", int32(0, 2, 4)))


def test_prefill_alpha():
    """Whoever gives the plain scale has scores that are too small by the root of the head size."""
    wrong(
        "paged_attention",
        "prefill_attention",
        lambda call, **options: call(**options | {"alpha": options["alpha"] / options["q"].shape[-1] ** 0.5}),
    )


def test_decode_scale():
    """Whoever gives prefill's alpha has scores that are too large by the same root."""
    wrong(
        "paged_attention",
        "speculative_attention",
        lambda call, **options: call(**options | {"scale": options["scale"] * options["head_dim"] ** 0.5}),
    )


def test_head_sizes():
    def heads(size: int) -> dict[str, Any]:
        cache = torch.randn(4, 2, 8, size)
        return prefill(q=torch.randn(5, 4, size), out=torch.empty(5, 4, size), k=cache, v=cache)

    for size in attention.HEAD_SIZES:
        attention.prefill_attention(**heads(size))
    for size in (16, 33, 72, 160, 576):
        with raises("head_sizes"):
            attention.prefill_attention(**heads(size))


def test_decode_batch():
    hold("decode_batch", attention.speculative_attention, decode(32), decode(33))


def test_decode_one_query():
    hold("decode_one_query", attention.speculative_attention, decode(), {"qlen": 2})


def test_context_limit():
    hold("context_limit", attention.speculative_attention, decode(), {"max_context_len": 8})


def test_attention_contiguous():
    wide = torch.randn(2, 4, 64)
    hold(
        "attention_contiguous",
        attention.speculative_attention,
        decode(),
        {"q": wide[..., :32].unsqueeze(0)},
        {"out": wide[..., :32]},
    )
    hold("attention_contiguous", attention.prefill_attention, prefill(), {"q": torch.randn(5, 4, 64)[..., 32:]})


def test_sink_float32():
    hold("sink_float32", attention.prefill_attention, prefill(), {"sink": torch.randn(4).half()})


def test_right_window():
    good = prefill(is_causal=False, swa_left=4, swa_right=0)
    hold("right_window", attention.prefill_attention, good, {"swa_right": 1})


def test_tokens_contiguous():
    rows, wide, cache = torch.randn(3, 2, 32), torch.randn(3, 2, 64)[..., :32], torch.randn(4, 2, 8, 32)
    good = {
        "k": rows,
        "v": rows,
        "k_cache": cache,
        "v_cache": cache.clone(),
        "slot_mapping": int32(0, -1, 9),
        "BLHD_LAYOUT": False,
    }
    hold("tokens_contiguous", attention.reshape_and_cache_flash, good, {"k": wide}, {"v": wide})
    good = {"kv_c": torch.randn(2, 16), "k_pe": torch.randn(2, 8), "slot_mapping": int32(0, 3)}
    good |= {"kv_cache": torch.randn(2, 4, 24)}
    hold("tokens_contiguous", attention.concat_and_cache_mla, good, {"k_pe": torch.randn(2, 16)[:, :8]})
