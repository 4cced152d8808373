"""A ragged batch in the parts that the vendor has operators for: sequences with one query, and those with more."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

Rows = slice | Tensor
"""A range, or indices on the host."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some sequences of a batch.

    Attributes:
        tokens: their queries among all.
        sequences: which they are.
        query_lens: ``[sequences]`` int32 on the host.
        key_lens: the same of their keys; ``key_lens_device`` is the same on the device.
    """

    tokens: Rows
    sequences: Rows
    query_lens: Tensor
    key_lens: Tensor
    key_lens_device: Tensor

    def __len__(self) -> int:
        return len(self.query_lens)


def parts(query_starts: Tensor, key_lens: Tensor, key_lens_device: Tensor) -> tuple[Part, Part]:
    """Sequences with one query, and sequences with more; those without are in neither.

    Args:
        query_starts: ``[sequences + 1]`` int32 on the host.
        key_lens: ``[sequences]`` int32 on the host.
        key_lens_device: the same on the device.
    """
    query_lens = query_starts.diff()

    def part(chosen: Tensor) -> Part:
        sequences = _rows(chosen.nonzero().flatten())
        tokens = _rows(chosen.repeat_interleave(query_lens).nonzero().flatten() + query_starts[0])
        return Part(tokens, sequences, query_lens[sequences], key_lens[sequences], select(key_lens_device, sequences))

    return part(query_lens == 1), part(query_lens > 1)


def select(tensor: Tensor, rows: Rows) -> Tensor:
    """These rows of a tensor, contiguous."""
    return tensor[rows].contiguous() if isinstance(rows, slice) else tensor.index_select(0, rows.to(tensor.device))


def put(out: Tensor, rows: Rows, values: Tensor) -> None:
    """Write these rows; nothing to do where ``values`` are them."""
    if isinstance(rows, Tensor):
        out.index_copy_(0, rows.to(out.device), values)
    elif values.data_ptr() != out[rows].data_ptr():
        out[rows] = values


def place(out: Tensor, rows: Rows) -> Tensor:
    """A contiguous tensor for these rows: they themselves where that is possible."""
    if isinstance(rows, slice) and out[rows].is_contiguous():
        return out[rows]
    count = len(rows) if isinstance(rows, Tensor) else rows.stop - rows.start
    return torch.empty((count, *out.shape[1:]), dtype=out.dtype, device=out.device)


def _rows(indices: Tensor) -> Rows:
    """A range where they are one: it needs no copy."""
    if len(indices) == 0:
        return slice(0, 0)
    first, last = int(indices[0]), int(indices[-1])
    return slice(first, last + 1) if last - first + 1 == len(indices) else indices
