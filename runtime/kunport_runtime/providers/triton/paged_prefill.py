"""Paged causal attention of sequences that have many queries each: prefill, chunked prefill, ragged batches.

A program takes a tile of ROWS queries: consecutive tokens of one sequence times the query heads that share a key-value
head, so that a block of keys serves all of them. Operations bound it: 2 * (D + DV) * H a pair of query and key seen.
What matters, largest first: a deep pipeline (the load of page numbers takes stages too), one loop with the mask behind
an `if`, tiles in an order that keeps a sequence's keys in the cache of the device, and tensor descriptors, where the
device has them, for pages of at least a block.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton import tuning
from kunport_runtime.providers.triton.paged_arguments import PagedArguments
from kunport_runtime.providers.triton.pages import offsets, pages
from kunport_runtime.providers.triton.softmax import HIDDEN, LOG2E, LOWEST, fold, lead, transform, widened

# `order`: 0 tiles of a sequence follow each other, heads fastest; 1 tiles of a sequence and head follow each other.
# `registers`: the most a thread may use (0: the compiler decides), where the device's compiler knows such a limit.
DEFAULTS: tuning.Config = {
    "rows": 64, "block": 32, "warps": 4, "stages": 2, "descriptors": False, "order": 0, "registers": 0,
}  # fmt: skip


@triton.jit
def _tile(
    starts, sequences, tiles, HEAD_TILES: tl.constexpr, TOKENS: tl.constexpr, FLAT: tl.constexpr, ORDER: tl.constexpr
):
    """Which sequence, tile of tokens and tile of heads a program has; the longest tiles, a sequence's last, come first.

    FLAT: tiles are numbered over the whole batch, sequence s beginning at starts[s] // TOKENS + s (so that a batch
    of few long and many short sequences launches no tile in vain but one a sequence), and s is found by bisection.
    Else every sequence has `tiles` of them.
    """
    program = tl.program_id(0)
    if FLAT:
        head_tile = program % HEAD_TILES
        number = tiles - 1 - program // HEAD_TILES
        low = 0
        high = sequences - 1
        while low < high:
            middle = (low + high + 1) // 2
            if tl.load(starts + middle) // TOKENS + middle <= number:
                low = middle
            else:
                high = middle - 1
        sequence = low
        tile = number - tl.load(starts + sequence) // TOKENS - sequence
    elif ORDER == 0:
        head_tile = program % HEAD_TILES
        tile = tiles - 1 - (program // HEAD_TILES) % tiles
        sequence = program // (HEAD_TILES * tiles)
    else:
        tile = tiles - 1 - program % tiles
        head_tile = (program // tiles) % HEAD_TILES
        sequence = program // (tiles * HEAD_TILES)
    return sequence, tile, head_tile


@triton.jit(do_not_specialize=["table_stride", "sequences", "tiles", "window"])
def _prefill(
    out, query, keys, values, key_rows, value_rows, tables, starts, lengths, sinks, slopes,
    factor, inner, value_scale, window, sequences, tiles,
    out_token_stride, out_head_stride, query_token_stride, query_head_stride,
    key_page_stride, key_token_stride, key_head_stride, value_page_stride, value_token_stride, value_head_stride,
    table_stride,
    GROUP: tl.constexpr, PACK: tl.constexpr, HEAD_TILES: tl.constexpr, ROWS: tl.constexpr,
    D: tl.constexpr, DV: tl.constexpr, D_PAD: tl.constexpr, DV_PAD: tl.constexpr,
    PAGE: tl.constexpr, BLOCK: tl.constexpr, DESCRIPTORS: tl.constexpr, KEY_PAGE_ROWS: tl.constexpr,
    VALUE_PAGE_ROWS: tl.constexpr, WINDOW: tl.constexpr, SOFTCAP: tl.constexpr, ALIBI: tl.constexpr,
    SINKS: tl.constexpr, ALIKE: tl.constexpr, WIDE: tl.constexpr, FLAT: tl.constexpr, ORDER: tl.constexpr,
    SKIP_SINGLE: tl.constexpr,
):  # fmt: skip
    """A tile has TOKENS tokens times PACK of the GROUP query heads of a key-value head, row = token * PACK + head.

    keys [pages, PAGE, KH, D], values [pages, PAGE, KH, DV]. With DESCRIPTORS key_rows and value_rows describe the
    caches as matrices, a row a token, page p beginning at row p * KEY_PAGE_ROWS. SKIP_SINGLE: sequences with one query
    are another kernel's.
    """
    TOKENS: tl.constexpr = ROWS // PACK
    PACKS: tl.constexpr = (GROUP + PACK - 1) // PACK
    sequence, tile, head_tile = _tile(starts, sequences, tiles, HEAD_TILES, TOKENS, FLAT, ORDER)
    first_token = tl.load(starts + sequence)
    queries = tl.load(starts + sequence + 1) - first_token
    if tile * TOKENS >= queries:
        return
    if SKIP_SINGLE:
        if queries == 1:
            return
    length = tl.load(lengths + sequence)
    head = head_tile // PACKS

    row = tl.arange(0, ROWS)
    token = tile * TOKENS + row // PACK
    in_group = (head_tile % PACKS) * PACK + row % PACK
    live = (token < queries) & (in_group < GROUP)
    if TOKENS * PACK != ROWS:
        live = live & (row < TOKENS * PACK)
    heads = head * GROUP + in_group
    asking = length - queries + token  # the query's position
    lowest = length - queries + tile * TOKENS
    end = tl.minimum(lowest + TOKENS, length)

    columns = tl.arange(0, D_PAD)
    value_columns = tl.arange(0, DV_PAD)
    rows = (first_token + token).to(tl.int64)
    q = tl.load(
        query + (rows * query_token_stride + heads * query_head_stride)[:, None] + columns[None, :],
        mask=live[:, None] & (columns < D)[None, :],
        other=0.0,
    )
    slope = tl.zeros([ROWS], tl.float32)
    if ALIBI:
        slope = tl.load(slopes + heads, mask=live, other=0.0).to(tl.float32) * (LOG2E / factor)
    if SINKS:
        sink = tl.load(sinks + heads, mask=live, other=0.0).to(tl.float32)
        peak = tl.maximum(sink * LOG2E - lead(slope, lowest - asking, factor, SOFTCAP, ALIBI), LOWEST)
        total = tl.full([ROWS], 1.0, tl.float32)
    else:
        peak = tl.full([ROWS], LOWEST, tl.float32)
        total = tl.zeros([ROWS], tl.float32)
    accumulator = tl.zeros([ROWS, DV_PAD], tl.float32)

    table = tables + sequence.to(tl.int64) * table_stride
    keys += head * key_head_stride
    values += head * value_head_stride
    last_page = (length - 1) // PAGE
    diagonal = (lowest + 1) // BLOCK * BLOCK  # from this block on, some query does not see some key
    seen = 0  # the first position that any query of the tile sees
    opened = 0  # from this position on, every query's window has begun
    if WINDOW:
        seen = tl.maximum(lowest - window + 1, 0)
        opened = tl.maximum(end - window, 0)
    loop_end = end
    if DESCRIPTORS:  # a descriptor cannot stop at the sequence's end: its last block comes after the loop
        loop_end = tl.minimum(end, length // BLOCK * BLOCK)

    for start in tl.range(seen // BLOCK * BLOCK, loop_end, BLOCK):
        start = tl.multiple_of(start, BLOCK)
        position = start + tl.arange(0, BLOCK)
        page = pages(table, start, last_page, PAGE, BLOCK, True, WIDE)
        if DESCRIPTORS:
            k, v = _described(key_rows, value_rows, page, start, head, D, DV, PAGE, KEY_PAGE_ROWS, VALUE_PAGE_ROWS)
        else:
            k_offsets = offsets(page, start, key_page_stride, key_token_stride, columns, PAGE, BLOCK)
            if ALIKE:
                v_offsets = k_offsets
            else:
                v_offsets = offsets(page, start, value_page_stride, value_token_stride, value_columns, PAGE, BLOCK)
            if D == D_PAD:
                k = tl.load(keys + k_offsets)
            else:
                k = tl.load(keys + k_offsets, mask=(columns < D)[None, :], other=0.0)
            written = position < length
            if WINDOW:
                written = written & (position >= seen)
            if DV == DV_PAD:
                v = tl.load(values + v_offsets, mask=written[:, None], other=0.0)
            else:
                v = tl.load(values + v_offsets, mask=written[:, None] & (value_columns < DV)[None, :], other=0.0)
        scores = tl.dot(q, tl.trans(widened(k, q.dtype)), input_precision="ieee")
        if SOFTCAP or ALIBI:
            scores = transform(scores, (position - lowest).to(tl.float32), slope, inner, SOFTCAP, ALIBI)
        if WINDOW:
            if (start >= diagonal) | (start < opened):
                hidden = (position[None, :] > asking[:, None]) | (position[None, :] + window <= asking[:, None])
                scores = tl.where(hidden, HIDDEN, scores)
        else:
            if start >= diagonal:
                scores = tl.where(position[None, :] > asking[:, None], HIDDEN, scores)
        accumulator, total, peak = fold(scores, widened(v, q.dtype), accumulator, total, peak, factor)

    if DESCRIPTORS:
        if loop_end < end:
            position = loop_end + tl.arange(0, BLOCK)
            page = pages(table, loop_end, last_page, PAGE, BLOCK, True, WIDE)
            k, v = _described(key_rows, value_rows, page, loop_end, head, D, DV, PAGE, KEY_PAGE_ROWS, VALUE_PAGE_ROWS)
            v = tl.where((position < length)[:, None], v, 0.0)
            scores = tl.dot(q, tl.trans(widened(k, q.dtype)), input_precision="ieee")
            if SOFTCAP or ALIBI:
                scores = transform(scores, (position - lowest).to(tl.float32), slope, inner, SOFTCAP, ALIBI)
            hidden = position[None, :] > asking[:, None]
            if WINDOW:
                hidden = hidden | (position[None, :] + window <= asking[:, None])
            scores = tl.where(hidden, HIDDEN, scores)
            accumulator, total, peak = fold(scores, widened(v, q.dtype), accumulator, total, peak, factor)

    result = accumulator * (value_scale / total)[:, None]
    place = (rows * out_token_stride + heads * out_head_stride)[:, None] + value_columns[None, :]
    tl.store(out + place, result.to(out.dtype.element_ty), mask=live[:, None] & (value_columns < DV)[None, :])


@triton.jit
def _described(
    key_rows, value_rows, page, start, head, D: tl.constexpr, DV: tl.constexpr, PAGE: tl.constexpr,
    KEY_PAGE_ROWS: tl.constexpr, VALUE_PAGE_ROWS: tl.constexpr,
):  # fmt: skip
    """Keys [BLOCK, D] and values [BLOCK, DV] at `start`, through tensor descriptors."""
    page = page.to(tl.int32)
    k = key_rows.load([page * KEY_PAGE_ROWS + start % PAGE, head * D])
    v = value_rows.load([page * VALUE_PAGE_ROWS + start % PAGE, head * DV])
    return k, v


def prefill(arguments: PagedArguments, skip_single: bool = False) -> None:
    """`paged_attention` of any batch; `skip_single` leaves the rows of sequences that have one query alone."""
    a = arguments
    config = tuning.lookup(
        "paged_prefill", a.key_cache.dtype, a.query.device, DEFAULTS,
        page=a.page, queries=a.max_query_len, keys=a.max_seq_len, size=a.query.shape[2],
    )  # fmt: skip
    config = a.fitted(config)
    rows, block = config["rows"], config["block"]
    pack = min(a.group, rows)
    head_tiles = a.key_heads * -(-a.group // pack)
    tokens = rows // pack
    tiles = -(-a.max_query_len // tokens)
    flat_tiles = a.query.shape[0] // tokens + a.sequences
    flat = a.sequences * tiles > 2 * flat_tiles
    key_rows = value_rows = None
    if config["descriptors"] and a.page % block == 0:
        key_rows, value_rows = _rows(a.key_cache, block), _rows(a.value_cache, block)
    described = key_rows is not None and value_rows is not None
    limits = {"maxnreg": config["registers"]} if config["registers"] else {}
    _prefill[(head_tiles * (flat_tiles if flat else a.sequences * tiles),)](
        a.out, a.query, a.key_cache, a.value_cache, key_rows, value_rows,
        a.block_tables, a.query_start_loc, a.seq_lens, a.sinks, a.alibi_slopes, *a.numbers(),
        a.sequences, flat_tiles if flat else tiles, *a.strides(),
        PACK=pack, HEAD_TILES=head_tiles, ROWS=rows, BLOCK=block, DESCRIPTORS=described,
        KEY_PAGE_ROWS=a.key_cache.stride(0) // a.key_cache.stride(1) if described else 0,
        VALUE_PAGE_ROWS=a.value_cache.stride(0) // a.value_cache.stride(1) if described else 0,
        FLAT=flat, ORDER=config["order"], SKIP_SINGLE=skip_single, **a.constants(),
        num_warps=config["warps"], num_stages=config["stages"], **limits,
    )  # fmt: skip


def _rows(cache: torch.Tensor, block: int) -> Any:
    """The cache as a matrix with a row a token, [block, size of a head] at a time; None where it is no such matrix."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    blocks, page, heads, size = cache.shape
    page_stride, token_stride, head_stride = cache.stride()[:3]
    regular = page_stride % token_stride == 0 and head_stride == size and token_stride * cache.element_size() % 16 == 0
    if not regular or size != triton.next_power_of_2(size) or cache.data_ptr() % 16:
        return None
    rows = (blocks - 1) * (page_stride // token_stride) + page
    return TensorDescriptor(cache, [rows, heads * size], [token_stride, 1], [block, size])
