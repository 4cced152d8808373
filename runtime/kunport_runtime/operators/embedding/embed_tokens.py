"""The rows of a table that tokens name, times a scale.

``out = table[ids - first] * scale``, in float32, rounded once. Where the table is a shard of the vocabulary, ids
outside ``first`` to ``first + vocab - 1`` give zeros, and the sum over ranks is the whole.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kunport_runtime.operators.contract import INDICES, Case, Contract, option, reads, writes
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.numerics import wide
from kunport_runtime.operators.tolerance import Tolerance


def reference(out: torch.Tensor, ids: torch.Tensor, table: torch.Tensor, scale: float, first: int) -> None:
    """The formula above."""
    local = ids - first
    inside = (local >= 0) & (local < len(table))
    rows = table[torch.where(inside, local, 0)]
    rows = rows if scale == 1.0 else wide(rows) * scale
    out.copy_(rows.masked_fill(~inside.unsqueeze(1), 0))


def cases(draw: Draw) -> Iterator[Case]:
    """Whole tables and shards, with and without a scale."""
    for tokens, vocab, hidden, scale, first in ((5, 30, 64, 1.0, 0), (17, 50, 96, 9.7979, 0), (9, 20, 130, 1.0, 20)):
        yield Case(
            f"{tokens} tokens, {vocab} rows of {hidden} from {first} on, scale {scale:g}",
            {
                "out": draw.poison(tokens, hidden),
                "ids": draw.integers(tokens, high=vocab if first == 0 else 3 * vocab),
                "table": draw.normal(vocab, hidden),
                "scale": scale,
                "first": first,
            },
        )


CONTRACT = Contract(
    name="embed_tokens",
    arguments=(
        writes("out", "tokens, hidden", "the rows", like="table"),
        reads("ids", "tokens", "of the tokens", dtypes=INDICES),
        reads("table", "vocab, hidden", "a row for each token"),
        option("scale", float, "a factor of all rows", default=1.0),
        option("first", int, "the token of the table's first row", default=0),
    ),
    reference=reference,
    cases=cases,
    tolerance={
        dtype: Tolerance(0.0, relative, "one product, rounded once: equal, or one step beside a tie")
        for dtype, relative in (("float32", 2.0**-23), ("float16", 2.0**-10), ("bfloat16", 2.0**-7))
    },
    dtype_of="table",
)
