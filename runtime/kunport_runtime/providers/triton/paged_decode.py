"""Paged attention of sequences that have one query each, the keys of a sequence split over several programs.

Two kernels. `_decode`: a program takes one sequence, one key-value head with its G query heads, and one part of the
keys; with one part it writes the result, with more it writes a partial sum in float32. `_combine` adds the parts up.
Bytes bound it: every key and value is read once, 2 * keys * KH * (D + DV) bytes in bfloat16, so few and small tiles in
flight (one or two warps a program, deep pipeline) do better than large ones.
"""

import math

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton import tuning
from kunport_runtime.providers.triton.paged_arguments import PagedArguments
from kunport_runtime.providers.triton.pages import offsets, pages
from kunport_runtime.providers.triton.softmax import HIDDEN, LOG2E, LOWEST, fold, for_cache, lead, transform, widened

# `programs`: how many programs the device is given; the keys are split until there are as many.
# `part`: fewer keys than these are not worth a program of their own.
DEFAULTS: tuning.Config = {"block": 32, "warps": 2, "stages": 3, "programs": 512, "part": 256}


@triton.jit
def _block(
    query, keys, values, table, start, last_page, first, end, accumulator, total, peak, slopes, factor, inner,
    key_page_stride, key_token_stride, value_page_stride, value_token_stride,
    D: tl.constexpr, DV: tl.constexpr, D_PAD: tl.constexpr, DV_PAD: tl.constexpr, PAGE: tl.constexpr,
    BLOCK: tl.constexpr, EDGE: tl.constexpr, SOFTCAP: tl.constexpr, ALIBI: tl.constexpr, ALIKE: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """Fold the block of keys at `start` in; EDGE: what lies outside first .. end - 1 is hidden, and may be anything."""
    position = start + tl.arange(0, BLOCK)
    columns = tl.arange(0, D_PAD)
    value_columns = tl.arange(0, DV_PAD)
    page = pages(table, start, last_page, PAGE, BLOCK, EDGE, WIDE)
    k_offsets = offsets(page, start, key_page_stride, key_token_stride, columns, PAGE, BLOCK)
    if ALIKE:
        v_offsets = k_offsets
    else:
        v_offsets = offsets(page, start, value_page_stride, value_token_stride, value_columns, PAGE, BLOCK)
    inside = (position >= first) & (position < end)
    if EDGE:
        k = tl.load(keys + k_offsets, mask=inside[:, None] & (columns < D)[None, :], other=0.0)
        v = tl.load(values + v_offsets, mask=inside[:, None] & (value_columns < DV)[None, :], other=0.0)
    else:
        if D == D_PAD:
            k = tl.load(keys + k_offsets)
        else:
            k = tl.load(keys + k_offsets, mask=(columns < D)[None, :], other=0.0)
        if DV == DV_PAD:
            v = tl.load(values + v_offsets)
        else:
            v = tl.load(values + v_offsets, mask=(value_columns < DV)[None, :], other=0.0)
    scores = tl.dot(query, tl.trans(widened(k, query.dtype)), input_precision="ieee")
    if SOFTCAP or ALIBI:
        scores = transform(scores, (position - (end - 1)).to(tl.float32), slopes, inner, SOFTCAP, ALIBI)
    if EDGE:
        scores = tl.where(inside[None, :], scores, HIDDEN)
    return fold(scores, widened(v, query.dtype), accumulator, total, peak, factor)


@triton.jit(do_not_specialize=["table_stride", "window", "least"])
def _decode(
    out, query, keys, values, partial, totals, peaks, tables, starts, lengths, sinks, slopes,
    factor, inner, value_scale, window, least,
    out_token_stride, out_head_stride, query_token_stride, query_head_stride,
    key_page_stride, key_token_stride, key_head_stride, value_page_stride, value_token_stride, value_head_stride,
    table_stride,
    HEADS: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr,
    D: tl.constexpr, DV: tl.constexpr, D_PAD: tl.constexpr, DV_PAD: tl.constexpr,
    PAGE: tl.constexpr, BLOCK: tl.constexpr, SPLITS: tl.constexpr,
    WINDOW: tl.constexpr, SOFTCAP: tl.constexpr, ALIBI: tl.constexpr, SINKS: tl.constexpr, ALIKE: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """Program (sequence, split, key-value head), heads fastest: neighbours read one page's row together.

    keys [pages, PAGE, KH, D], values [pages, PAGE, KH, DV]; partial [B, KH, SPLITS, G, DV], totals and peaks
    [B, KH, SPLITS, G] float32. ROWS >= G: the matrix unit wants 16. `least`: blocks that a split takes at least.
    """
    program = tl.program_id(0)
    head = program % HEADS
    split = (program // HEADS) % SPLITS
    sequence = program // (HEADS * SPLITS)
    token = tl.load(starts + sequence)
    if tl.load(starts + sequence + 1) - token != 1:
        return
    length = tl.load(lengths + sequence)
    seen = 0  # the first position that the query sees
    if WINDOW:
        seen = tl.maximum(length - window, 0)
    origin = seen // BLOCK * BLOCK
    blocks = (length - origin + BLOCK - 1) // BLOCK
    part = tl.maximum((blocks + SPLITS - 1) // SPLITS, least) * BLOCK
    first = origin + split * part
    end = tl.minimum(first + part, length)

    group = tl.arange(0, ROWS)
    live = group < GROUP
    heads = head * GROUP + group
    columns = tl.arange(0, D_PAD)
    value_columns = tl.arange(0, DV_PAD)
    q = tl.load(
        query + token.to(tl.int64) * query_token_stride + heads[:, None] * query_head_stride + columns[None, :],
        mask=live[:, None] & (columns < D)[None, :],
        other=0.0,
    )
    q, factor, inner = for_cache(q, factor, inner, keys.dtype.element_ty, SOFTCAP)
    slope = tl.zeros([ROWS], tl.float32)
    if ALIBI:
        slope = tl.load(slopes + heads, mask=live, other=0.0).to(tl.float32) * (LOG2E / factor)
    peak = tl.full([ROWS], LOWEST, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    if SINKS:
        if split == 0:
            sink = tl.load(sinks + heads, mask=live, other=0.0).to(tl.float32)
            peak = tl.maximum(sink * LOG2E - lead(slope, 0, factor, SOFTCAP, ALIBI), LOWEST)
            total = tl.full([ROWS], 1.0, tl.float32)
    accumulator = tl.zeros([ROWS, DV_PAD], tl.float32)

    table = tables + sequence.to(tl.int64) * table_stride
    keys += head * key_head_stride
    values += head * value_head_stride
    last_page = (length - 1) // PAGE
    whole = first
    if WINDOW:
        if (seen > first) & (first < end):  # the window begins inside the first block
            accumulator, total, peak = _block(
                q, keys, values, table, first, last_page, seen, length, accumulator, total, peak, slope, factor, inner,
                key_page_stride, key_token_stride, value_page_stride, value_token_stride,
                D, DV, D_PAD, DV_PAD, PAGE, BLOCK, True, SOFTCAP, ALIBI, ALIKE, WIDE,
            )  # fmt: skip
            whole = first + BLOCK
    whole_end = tl.maximum(end // BLOCK * BLOCK, whole)
    for start in tl.range(whole, whole_end, BLOCK):
        start = tl.multiple_of(start, BLOCK)
        accumulator, total, peak = _block(
            q, keys, values, table, start, last_page, 0, length, accumulator, total, peak, slope, factor, inner,
            key_page_stride, key_token_stride, value_page_stride, value_token_stride,
            D, DV, D_PAD, DV_PAD, PAGE, BLOCK, False, SOFTCAP, ALIBI, ALIKE, WIDE,
        )  # fmt: skip
    if whole_end < end:  # the last block, which the sequence does not fill
        accumulator, total, peak = _block(
            q, keys, values, table, whole_end, last_page, 0, length, accumulator, total, peak, slope, factor, inner,
            key_page_stride, key_token_stride, value_page_stride, value_token_stride,
            D, DV, D_PAD, DV_PAD, PAGE, BLOCK, True, SOFTCAP, ALIBI, ALIKE, WIDE,
        )  # fmt: skip

    stored = live[:, None] & (value_columns < DV)[None, :]
    if SPLITS == 1:
        result = accumulator * (value_scale / total)[:, None]
        place = token.to(tl.int64) * out_token_stride + heads[:, None] * out_head_stride + value_columns[None, :]
        tl.store(out + place, result.to(out.dtype.element_ty), mask=stored)
    else:
        row = ((sequence * HEADS + head) * SPLITS + split) * GROUP + group
        if first < end:
            tl.store(partial + row[:, None] * DV + value_columns[None, :], accumulator, mask=stored)
        tl.store(totals + row, total, mask=live)
        tl.store(peaks + row, peak, mask=live)


@triton.jit
def _combine(
    out, partial, totals, peaks, starts, value_scale, out_token_stride, out_head_stride,
    HEADS: tl.constexpr, GROUP: tl.constexpr, DV: tl.constexpr, DV_PAD: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """Program (sequence, query head): the result is the sum of the parts, each shrunk to the highest peak."""
    sequence = tl.program_id(0) // (HEADS * GROUP)
    head = tl.program_id(0) % (HEADS * GROUP)
    token = tl.load(starts + sequence)
    if tl.load(starts + sequence + 1) - token != 1:
        return
    columns = tl.arange(0, DV_PAD)
    row = ((sequence * HEADS + head // GROUP) * SPLITS + tl.arange(0, SPLITS)) * GROUP + head % GROUP
    peak = tl.load(peaks + row)
    total = tl.load(totals + row)
    weight = tl.exp2(peak - tl.max(peak, 0))
    written = (total > 0.0)[:, None] & (columns < DV)[None, :]  # an empty part has written no sum
    part = tl.load(partial + row[:, None] * DV + columns[None, :], mask=written, other=0.0)
    result = tl.sum(part * weight[:, None], 0) * (value_scale / tl.sum(weight * total, 0))
    place = token.to(tl.int64) * out_token_stride + head * out_head_stride + columns
    tl.store(out + place, result.to(out.dtype.element_ty), mask=columns < DV)


def decode(arguments: PagedArguments) -> None:
    """`paged_attention` of the sequences that have exactly one query; the others' rows of `out` are left alone."""
    a = arguments
    programs = a.sequences * a.key_heads
    longest = min(a.max_seq_len, a.window) if a.window else a.max_seq_len
    config = tuning.lookup(
        "paged_decode", a.key_cache.dtype, a.query.device, DEFAULTS,
        programs=programs, keys=longest, page=a.page, size=a.key_cache.shape[3],
    )  # fmt: skip
    config = a.fitted(config)
    constants = a.constants()
    parts = splits(programs, longest, config)
    partial = totals = peaks = a.out
    if parts > 1:
        rows = programs * parts * a.group
        partial = torch.empty(rows * a.value_cache.shape[3], dtype=torch.float32, device=a.out.device)
        totals, peaks = torch.empty(2, rows, dtype=torch.float32, device=a.out.device)
    _decode[(programs * parts,)](
        a.out, a.query, a.key_cache, a.value_cache, partial, totals, peaks,
        a.block_tables, a.query_start_loc, a.seq_lens, a.sinks, a.alibi_slopes, *a.numbers(),
        max(1, config["part"] // config["block"]), *a.strides(),
        HEADS=a.key_heads, ROWS=max(16, triton.next_power_of_2(a.group)), BLOCK=config["block"], SPLITS=parts,
        **constants, num_warps=config["warps"], num_stages=config["stages"],
    )  # fmt: skip
    if parts > 1:
        _combine[(programs * a.group,)](
            a.out, partial, totals, peaks, a.query_start_loc, a.value_scale, *a.out.stride()[:2],
            HEADS=a.key_heads, GROUP=a.group, DV=constants["DV"], DV_PAD=constants["DV_PAD"], SPLITS=parts, num_warps=4,
        )  # fmt: skip


def splits(programs: int, longest: int, config: tuning.Config) -> int:
    """Into how many parts (a power of two) the keys of a sequence go, so that the device has enough programs."""
    wanted = round(math.log2(config["programs"] / programs))
    most = math.floor(math.log2(max(longest / config["part"], 1)))
    return 1 << max(0, min(wanted, most))
