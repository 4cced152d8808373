"""The vendor's attention, over pages and over rows, and the writing of its caches."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kunport_runtime.simulator.lengths import same_lengths, starts
from kunport_runtime.simulator.pages import pages_from_start, rows_of
from kunport_runtime.simulator.rules import require

HEAD_SIZES = (32, 64, 80, 96, 112, 120, 128, 192, 256, 512)
LARGEST_DECODE = 32


def prefill_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    is_causal: bool,
    is_prefix_cache: bool = False,
    block_table: Tensor | None = None,
    alpha: float = 1.0,
    context_qlen_lod_cpu: Tensor | None = None,
    context_qlen_lod_xpu: Tensor | None = None,
    context_kvlen_lod_cpu: Tensor | None = None,
    context_kvlen_lod_xpu: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    softmax_lse: Tensor | None = None,
    swa_left: int = -1,
    swa_right: int = -1,
    sink: Tensor | None = None,
) -> None:
    """Rows of several sequences, with the keys in pages (``is_prefix_cache``) or in rows as well.

    Where:
        q: ``[tokens, heads, head_dim]``; ``out`` alike.
        k: ``[blocks, kv_heads, block_size, head_dim]`` pages, or ``[keys, kv_heads, head_dim]`` rows; ``v`` alike.
        is_causal: whether the queries, which are the last of their keys, see no later ones.
        block_table: ``[sequences, pages]`` int32.
        alpha: a factor of scores, which are divided by the root of ``head_dim``.
        context_qlen_lod_cpu: ``[sequences + 1]``: where queries start; the same on the device in ``_xpu``.
        context_kvlen_lod_cpu: the same of keys; absent where there are no others than the queries' own.
        swa_left: keys that a query sees, its own included, as public callers pass a model's window; -1 for all.
        swa_right: later keys that a query sees where it is not causal; -1 for all.
    """
    if softmax_lse is not None:
        raise NotImplementedError("The simulator does not give the logarithm of the sum.")
    _hold_operands(q, out, sink)
    queries = starts(context_qlen_lod_cpu, context_qlen_lod_xpu, len(q))
    given = context_kvlen_lod_cpu is not None or context_kvlen_lod_xpu is not None
    keys = (
        starts(context_kvlen_lod_cpu, context_kvlen_lod_xpu, None if is_prefix_cache else len(k)) if given else queries
    )
    require("lod_form", len(keys) == len(queries), f"queries of {len(queries) - 1} sequences, keys of {len(keys) - 1}")
    require("right_window", not (is_prefix_cache and swa_right > 0), f"swa_right is {swa_right} with pages")
    scale = alpha / q.shape[-1] ** 0.5
    for index in range(len(queries) - 1):
        rows = slice(queries[index], queries[index + 1])
        length = keys[index + 1] - keys[index]
        if is_prefix_cache:
            both = [rows_of(cache, block_table, index, length, len(queries) - 1) for cache in (k, v)]
        else:
            both = [each[keys[index] : keys[index + 1]] for each in (k, v)]
        hidden = _hidden(rows.stop - rows.start, length, is_causal, swa_left, swa_right, q.device)
        out[rows] = _attend(q[rows], both[0], both[1], scale, hidden, alibi_slopes, sink).to(out.dtype)


def speculative_attention(
    out: Tensor,
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    context_lens_cpu: Tensor,
    context_lens_xpu: Tensor,
    batch_num: int,
    qlen: int,
    max_context_len: int,
    head_num: int,
    head_dim: int,
    scale: float,
    kv_head_num: int,
    block_size: int,
    max_num_blocks_per_seq: int,
    max_window_size: int = -1,
    block_tables: Tensor | None = None,
    sink: Tensor | None = None,
) -> None:
    """One query of each sequence, the last of its keys, which are in pages.

    Where:
        out: ``[sequences, heads, head_dim]``.
        q: ``[1, sequences, heads, head_dim]`` or ``[sequences, 1, heads, head_dim]``.
        context_lens_cpu: ``[sequences]`` int32: keys of each; the same on the device in ``_xpu``.
        max_context_len: the longest that there may be.
        max_window_size: keys that a query sees, its own included; -1 for all.
    """
    require("decode_one_query", qlen == 1, f"qlen is {qlen}")
    shape = (k_cache.shape[1], k_cache.shape[2], k_cache.shape[3])
    require(
        "cache_layout",
        shape == (kv_head_num, block_size, head_dim),
        f"pages are {list(shape)}, not [{kv_head_num}, {block_size}, {head_dim}]",
    )
    require(
        "tables_form",
        block_tables is not None and block_tables.shape == (batch_num, max_num_blocks_per_seq),
        f"the table is {None if block_tables is None else list(block_tables.shape)}, not "
        f"[{batch_num}, {max_num_blocks_per_seq}]",
    )
    _decode(
        out, q.reshape(batch_num, head_num, head_dim) if q.is_contiguous() else q[0], k_cache, v_cache, block_tables,
        context_lens_cpu, context_lens_xpu, scale, max_window_size, sink, max_context_len,
    )  # fmt: skip


def paged_attention(
    x: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_tables: Tensor,
    context_lens_cpu: Tensor,
    context_lens_xpu: Tensor,
    is_context: bool,
    is_causal: bool,
    out: Tensor,
    vo_head_dim: int,
) -> None:
    """The earlier decode: one query ``x`` ``[sequences, heads, head_dim]`` of each sequence, scores over the root."""
    if is_context or not is_causal or vo_head_dim != x.shape[-1]:
        raise NotImplementedError("The simulator has the decode of paged_attention only.")
    scale = x.shape[-1] ** -0.5
    _decode(out, x, k_cache, v_cache, block_tables, context_lens_cpu, context_lens_xpu, scale, -1, None, None)


def _decode(
    out: Tensor,
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    tables: Tensor | None,
    lengths_cpu: Tensor,
    lengths_xpu: Tensor,
    scale: float,
    window: int,
    sink: Tensor | None,
    longest: int | None,
) -> None:
    _hold_operands(q, out, sink)
    require("decode_batch", len(q) <= LARGEST_DECODE, f"{len(q)} sequences")
    lengths = same_lengths(lengths_cpu, lengths_xpu).tolist()
    require(
        "context_limit",
        longest is None or max(lengths, default=0) <= longest,
        f"a sequence of {max(lengths, default=0)} keys, announced {longest}",
    )
    for index, length in enumerate(lengths):
        keys, values = (rows_of(cache, tables, index, length, len(q)) for cache in (k_cache, v_cache))
        hidden = _hidden(1, length, True, window, 0, q.device)
        out[index] = _attend(q[index : index + 1], keys, values, scale, hidden, None, sink)[0].to(out.dtype)


def reshape_and_cache_flash(
    k: Tensor,
    v: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    slot_mapping: Tensor,
    BLHD_LAYOUT: bool = True,  # noqa: N803 (the vendor's name)
) -> None:
    """Write rows ``[tokens, kv_heads, dim]`` into pages, with tokens before heads (``BLHD_LAYOUT``) or after.

    It goes by the strides of a cache, as attention does not. A negative slot is skipped.
    """
    for rows, cache in ((k, k_cache), (v, v_cache)):
        require("tokens_contiguous", rows.is_contiguous(), f"rows with strides {rows.stride()}")
        pages_from_start(cache)
        by_token = cache if BLHD_LAYOUT else cache.transpose(1, 2)
        require(
            "cache_layout",
            by_token.shape[2:] == rows.shape[1:],
            f"pages are {list(cache.shape[1:])} with BLHD_LAYOUT={BLHD_LAYOUT}, rows {list(rows.shape[1:])}",
        )
        kept = slot_mapping >= 0
        slots = slot_mapping[kept].long()
        by_token[slots // by_token.shape[1], slots % by_token.shape[1]] = rows[: len(kept)][kept].to(cache.dtype)


def concat_and_cache_mla(kv_c: Tensor, k_pe: Tensor, slot_mapping: Tensor, kv_cache: Tensor) -> None:
    """Write latents and rotated keys, side by side, into ``kv_cache`` ``[blocks, block_size, latent + rope]``."""
    for rows in (kv_c, k_pe):
        require("tokens_contiguous", rows.is_contiguous(), f"rows with strides {rows.stride()}")
    require("cache_layout", kv_cache.is_contiguous(), f"a cache of latents with strides {kv_cache.stride()}")
    kept = slot_mapping >= 0
    rows = torch.cat((kv_c, k_pe), dim=-1)[kept].to(kv_cache.dtype)
    kv_cache.view(-1, kv_cache.shape[-1])[slot_mapping[kept].long()] = rows


def _hold_operands(q: Tensor, out: Tensor, sink: Tensor | None) -> None:
    require("head_sizes", q.shape[-1] in HEAD_SIZES, f"heads of {q.shape[-1]}")
    for name, each in (("q", q), ("out", out)):
        require("attention_contiguous", each.is_contiguous(), f"{name} has strides {each.stride()}")
    require(
        "sink_float32",
        sink is None or sink.dtype == torch.float32,
        f"sinks are {sink.dtype if sink is not None else ''}",
    )


def _hidden(queries: int, keys: int, causal: bool, left: int, right: int, device: torch.device) -> Tensor:
    """Which keys each of the last ``queries`` positions does not see: ``[queries, keys]``."""
    ahead = torch.arange(keys, device=device) - torch.arange(keys - queries, keys, device=device).unsqueeze(1)
    hidden = ahead > 0 if causal else torch.zeros_like(ahead, dtype=torch.bool)
    if left >= 0:
        hidden = hidden | (ahead <= -left)
    if right >= 0:
        hidden = hidden | (ahead > right)
    return hidden


def _attend(
    q: Tensor, k: Tensor, v: Tensor, scale: float, hidden: Tensor, slopes: Tensor | None, sink: Tensor | None
) -> Tensor:
    """``[queries, heads, dim]`` float32, of queries ``[queries, heads, dim]`` and rows ``[keys, kv_heads, dim]``."""
    group = q.shape[1] // k.shape[1]
    k, v = (each.float().repeat_interleave(group, dim=1) for each in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q.float(), k) * scale
    if slopes is not None:
        queries, keys = hidden.shape
        behind = torch.arange(keys) - torch.arange(keys - queries, keys).unsqueeze(1)
        scores = scores + slopes.float().view(-1, 1, 1) * behind
    scores = scores.masked_fill(hidden, -torch.inf)
    top = scores.amax(-1, keepdim=True)
    top = top if sink is None else torch.maximum(top, sink.view(-1, 1, 1))
    weights = torch.exp(scores - top)
    total = weights.sum(-1, keepdim=True)
    if sink is not None:
        total = total + torch.exp(sink.view(-1, 1, 1) - top)
    return torch.einsum("hqk,khd->qhd", weights / total, v)


OPERATORS: Sequence[str] = (
    "prefill_attention",
    "speculative_attention",
    "paged_attention",
    "reshape_and_cache_flash",
    "concat_and_cache_mla",
)
