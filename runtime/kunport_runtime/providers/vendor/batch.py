"""A ragged batch in the parts that the vendor has operators for: sequences with one query, and those with more."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

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
    starts: list[int] = query_starts.tolist()
    counts = [end - start for start, end in pairwise(starts)]

    def part(chosen: list[int]) -> Part:
        sequences = _rows(chosen)
        if isinstance(sequences, slice):  # nobody is between them, so nothing is between their tokens
            tokens: Rows = slice(starts[sequences.start], starts[sequences.stop])
        else:
            tokens = torch.cat([torch.arange(starts[index], starts[index + 1]) for index in chosen])
        query_lens = torch.tensor([counts[index] for index in chosen], dtype=torch.int32)
        return Part(tokens, sequences, query_lens, key_lens[sequences], select(key_lens_device, sequences))

    single = [index for index, count in enumerate(counts) if count == 1]
    several = [index for index, count in enumerate(counts) if count > 1]
    return part(single), part(several)


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


def _rows(indices: list[int]) -> Rows:
    """A range where they are one: it needs no copy."""
    if not indices:
        return slice(0, 0)
    first, last = indices[0], indices[-1]
    return slice(first, last + 1) if last - first + 1 == len(indices) else torch.tensor(indices)
