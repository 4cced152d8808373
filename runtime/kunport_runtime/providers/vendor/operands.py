"""Operands as the vendor wants them: contiguous. Ours have any strides but the last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


@contextmanager
def result(out: Tensor) -> Iterator[Tensor]:
    """A contiguous tensor to write, which is ``out`` itself or is copied to it in the end."""
    if out.is_contiguous():
        yield out
        return
    scratch = torch.empty(out.shape, dtype=out.dtype, device=out.device)
    yield scratch
    out.copy_(scratch)


@contextmanager
def in_place(*operands: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Contiguous rows ``[tokens, ...]`` to change, which are the operands themselves or are copied back to them."""
    changed = tuple(each.contiguous() for each in operands)
    yield tuple(each.view(len(each), -1) for each in changed)
    for operand, copy in zip(operands, changed, strict=True):
        if copy is not operand:
            operand.copy_(copy)
