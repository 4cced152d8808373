"""Where a block of consecutive positions of a sequence lies in a paged cache, pages given by a block table."""

import triton
import triton.language as tl


@triton.jit
def pages(table, first, last_page, PAGE: tl.constexpr, BLOCK: tl.constexpr, EDGE: tl.constexpr, WIDE: tl.constexpr):
    """Page numbers of positions first .. first + BLOCK - 1: one number if PAGE is a multiple of BLOCK, else [BLOCK].

    `table` points at the sequence's row of page numbers. `first` is a multiple of BLOCK and a position of the sequence.
    EDGE: the block may reach beyond the sequence, where page numbers are garbage: then none beyond `last_page` is read.
    WIDE: offsets into the cache need 64 bits.
    """
    if PAGE % BLOCK == 0:
        page = tl.load(table + first // PAGE)
    else:
        if BLOCK % PAGE == 0:
            entry = first // PAGE + tl.arange(0, BLOCK) // PAGE
        else:
            entry = (first + tl.arange(0, BLOCK)) // PAGE
        if EDGE:
            entry = tl.minimum(entry, last_page)
        page = tl.load(table + entry)
    if WIDE:
        page = page.to(tl.int64)
    return page


@triton.jit
def offsets(page, first, page_stride, token_stride, columns, PAGE: tl.constexpr, BLOCK: tl.constexpr):
    """Offsets [BLOCK, columns] of those positions from a head's first element; `page` is what `pages` returned."""
    within = tl.arange(0, BLOCK)
    if PAGE % BLOCK == 0:  # what changes from block to block is one number
        start = page * page_stride + (first % PAGE) * token_stride
        block = start + (within[:, None] * token_stride + columns[None, :])
    elif BLOCK % PAGE == 0:
        block = (page * page_stride + (within % PAGE) * token_stride)[:, None] + columns[None, :]
    else:
        block = (page * page_stride + (first + within) % PAGE * token_stride)[:, None] + columns[None, :]
    return block
