"""The choices of tokens in the order of their experts: counted a block at a time, then placed; nothing is compared."""

import torch
import triton
import triton.language as tl

_ELEMENTS = 16384  # choices times experts that a program looks at, at most
_LARGEST = 128  # choices


@triton.jit
def _belongs(ids, choices, EXPERTS_PAD: tl.constexpr, BLOCK: tl.constexpr):
    """The choices of a program's block, and to which expert each belongs [BLOCK, EXPERTS_PAD]; none where it is -1."""
    choice = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    expert = tl.load(ids + choice, mask=choice < choices, other=-1)
    return choice, expert[:, None] == tl.arange(0, EXPERTS_PAD)[None, :]


@triton.jit(do_not_specialize=["choices"])
def _count(counts, ids, choices, EXPERTS_PAD: tl.constexpr, BLOCK: tl.constexpr):
    """Counts [blocks, EXPERTS_PAD]."""
    _, belongs = _belongs(ids, choices, EXPERTS_PAD, BLOCK)
    row = counts + tl.program_id(0) * EXPERTS_PAD
    tl.store(row + tl.arange(0, EXPERTS_PAD), tl.sum(belongs.to(tl.int32), 0))


@triton.jit(do_not_specialize=["blocks"])
def _accumulate(counts, blocks, EXPERTS_PAD: tl.constexpr, BLOCKS: tl.constexpr, EXPERTS: tl.constexpr):
    """Counts become those of a block and of all before it; a program has EXPERTS experts, BLOCKS blocks at a time."""
    expert = tl.program_id(0) * EXPERTS + tl.arange(0, EXPERTS)
    total = tl.zeros([EXPERTS], tl.int32)
    for start in range(0, blocks, BLOCKS):
        block = start + tl.arange(0, BLOCKS)
        place = counts + block[:, None] * EXPERTS_PAD + expert[None, :]
        inside = (block < blocks)[:, None]
        some = tl.load(place, mask=inside, other=0)
        tl.store(place, total[None, :] + tl.cumsum(some, 0), mask=inside)
        total += tl.sum(some, 0)


@triton.jit(do_not_specialize=["choices", "blocks"])
def _place(
    order, starts, sums, ids, choices, blocks, experts, EXPERTS_PAD: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Sums [blocks, EXPERTS_PAD]: what `_accumulate` leaves."""
    choice, belongs = _belongs(ids, choices, EXPERTS_PAD, BLOCK)
    belongs = belongs.to(tl.int32)
    expert = tl.arange(0, EXPERTS_PAD)
    total = tl.load(sums + (blocks - 1) * EXPERTS_PAD + expert)
    end = tl.cumsum(total, 0)
    if tl.program_id(0) == 0:
        tl.store(starts + expert, end - total, mask=expert <= experts)
        tl.store(starts + 1 + expert, end, mask=expert == experts - 1)
    begin = tl.load(sums + tl.program_id(0) * EXPERTS_PAD + expert) - tl.sum(belongs, 0) + end - total
    # Comparing the choices of a block with each other needs no scan, whose threads would wait for one another.
    own = tl.load(ids + choice, mask=choice < choices, other=-1)
    alike = (own[:, None] == own[None, :]) & (choice[:, None] > choice[None, :])
    place = tl.sum(belongs * begin[None, :], 1) + tl.sum(alike.to(tl.int32), 1)
    tl.store(order + place, choice, mask=own >= 0)


def by_expert(ids: torch.Tensor, experts: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Order [choices] and starts [experts + 1], int32, of contiguous ids [tokens, top_k].

    The choices of expert e are order[starts[e]:starts[e + 1]], first to last; those of id -1 are left out, and the end
    of `order` is not written then.
    """
    choices = ids.numel()
    pad = max(16, triton.next_power_of_2(experts))
    block = min(_LARGEST, max(16, _ELEMENTS // pad))
    blocks = triton.cdiv(choices, block)
    counts = torch.empty(blocks, pad, dtype=torch.int32, device=ids.device)
    order = torch.empty(choices, dtype=torch.int32, device=ids.device)
    starts = torch.empty(experts + 1, dtype=torch.int32, device=ids.device)
    _count[(blocks,)](counts, ids, choices, EXPERTS_PAD=pad, BLOCK=block, num_warps=8)
    _accumulate[(pad // 16,)](counts, blocks, EXPERTS_PAD=pad, BLOCKS=64, EXPERTS=16, num_warps=4)
    _place[(blocks,)](order, starts, counts, ids, choices, blocks, experts, EXPERTS_PAD=pad, BLOCK=block, num_warps=8)
    return order, starts
