"""Arguments that say which tokens are whose, which the attention operators share, and how cases draw them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kunport_runtime.operators.contract import option, reads
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.tolerance import Tolerance

LENGTHS = ("int32",)

PAGING = (
    reads(
        "block_tables",
        "sequences, max_blocks",
        "the pages of each sequence in order; entries beyond its length are undefined",
        dtypes=LENGTHS,
    ),
    reads(
        "query_start_loc",
        "sequences + 1",
        "where the queries of each sequence start; the last entry is where all end",
        dtypes=LENGTHS,
    ),
    reads("seq_lens", "sequences", "keys of each sequence, its queries' own included", dtypes=LENGTHS),
    option("max_query_len", int, "the most queries of a sequence"),
    option("max_seq_len", int, "the most keys of a sequence"),
    option("scale", float, "the factor of the scores"),
)
ON_HOST = (
    reads(
        "query_start_loc_cpu",
        "sequences + 1",
        "query_start_loc on the host, for providers that need it there",
        dtypes=LENGTHS,
        optional=True,
        on_host=True,
    ),
    reads("seq_lens_cpu", "sequences", "seq_lens on the host", dtypes=LENGTHS, optional=True, on_host=True),
)

# A weighted mean of values of size 1 in another order; in half precision the weights are rounded before the product,
# the result after it, and scores of some units come from inputs that are exact on both sides.
TOLERANCE = {
    "float32": Tolerance(1e-5, 1e-5, "sums in another order, and an exponential of a few units in the last place"),
    "float16": Tolerance(2e-3, 2e-3, "weights of the mean and the result rounded, 2^-11 each, on both sides"),
    "bfloat16": Tolerance(1.6e-2, 1.6e-2, "weights of the mean and the result rounded, 2^-9 each, on both sides"),
}


@dataclass(frozen=True)
class Batch:
    """A ragged batch for a case: for each sequence its queries and its keys.

    Attributes:
        label: for messages.
        lengths: (queries, keys) of each sequence.
        block_size: tokens of a page.
    """

    label: str
    lengths: tuple[tuple[int, int], ...]
    block_size: int

    @property
    def tokens(self) -> int:
        """Queries of all sequences."""
        return sum(queries for queries, _ in self.lengths)

    @property
    def blocks(self) -> int:
        """Pages of all sequences, and two that are nobody's."""
        return sum(self.pages(keys) for _, keys in self.lengths) + 2

    def pages(self, keys: int) -> int:
        """Pages of a sequence."""
        return -(-keys // self.block_size)

    def arguments(self, draw: Draw) -> dict[str, object]:
        """The arguments of `PAGING` and `ON_HOST`; pages in random order, unused entries of the table out of range."""
        free = draw.permutation(self.blocks, torch.int32).tolist()
        width = max(self.pages(keys) for _, keys in self.lengths) + 1
        tables = torch.full((len(self.lengths), width), 1 << 30, dtype=torch.int32)
        for row, (_, keys) in zip(tables, self.lengths, strict=True):
            for page in range(self.pages(keys)):
                row[page] = free.pop()
        starts = [sum(queries for queries, _ in self.lengths[:index]) for index in range(len(self.lengths) + 1)]
        lengths = [keys for _, keys in self.lengths]
        return {
            "block_tables": tables.to(draw.device),
            "query_start_loc": draw.values(starts, torch.int32),
            "seq_lens": draw.values(lengths, torch.int32),
            "max_query_len": max(queries for queries, _ in self.lengths),
            "max_seq_len": max(lengths),
            "query_start_loc_cpu": torch.tensor(starts, dtype=torch.int32),
            "seq_lens_cpu": torch.tensor(lengths, dtype=torch.int32),
        }

    def poison_unused(self, cache: torch.Tensor, tables: torch.Tensor) -> None:
        """Put NaN where no key is: whoever reads there and lets it count gives NaN."""
        used = torch.zeros(cache.shape[:2], dtype=torch.bool)
        for row, (_, keys) in zip(tables.tolist(), self.lengths, strict=True):
            for position in range(keys):
                used[row[position // self.block_size], position % self.block_size] = True
        unused = ~used.to(cache.device)
        if cache.element_size() == 1:
            cache.view(torch.uint8)[unused] = torch.tensor(torch.nan).to(cache.dtype).view(torch.uint8).item()
        else:
            cache[unused] = torch.nan


DECODE = Batch("decode", ((1, 5), (1, 33), (1, 1), (1, 64)), 16)
PREFILL = Batch("prefill", ((7, 7), (18, 18), (1, 1)), 16)
MIXED = Batch("mixed", ((1, 40), (9, 25), (0, 0), (1, 3), (17, 17)), 8)
