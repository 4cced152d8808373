"""Arguments that say which tokens and which state belong together, which the operators of this folder share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from kunport_runtime.operators.contract import TensorArgument, reads, updates
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.tolerance import Tolerance

SEQUENCES: tuple[TensorArgument, ...] = (
    reads(
        "query_start_loc",
        "sequences + 1",
        "where the tokens of each sequence start; the last entry is where all end",
        dtypes=("int32",),
    ),
    reads("state_slots", "sequences", "the row of the state of each sequence; no two are equal", dtypes=("int32",)),
    reads("has_initial_state", "sequences", "whether it starts from what is there", dtypes=("bool",)),
)

# A recurrence of decaying terms of about unit size in float32; in half precision the result and the state are rounded.
TOLERANCE = {
    "float32": Tolerance(2e-5, 1e-5, "sums over tokens in another order (by chunks), and exponentials"),
    "float16": Tolerance(4e-3, 2e-3, "result and state rounded on both sides, and terms that cancel"),
    "bfloat16": Tolerance(3e-2, 1.6e-2, "result and state rounded on both sides, and terms that cancel"),
}


def state_argument(name: str, shape: str, meaning: str) -> TensorArgument:
    """A pool of states ``[slots, ...]``, one row for each sequence that runs or waits."""
    return updates(name, f"slots, {shape}", meaning, contiguous=True)


def sequences(
    query_start_loc: torch.Tensor, state_slots: torch.Tensor, has_initial_state: torch.Tensor
) -> Iterator[tuple[int, int, int, bool]]:
    """First token, last token + 1, slot, and whether the state counts, of each sequence that has tokens."""
    starts = query_start_loc.tolist()
    for start, end, slot, initial in zip(
        starts[:-1], starts[1:], state_slots.tolist(), has_initial_state.tolist(), strict=True
    ):
        if end > start:
            yield start, end, slot, initial


@dataclass(frozen=True)
class Ragged:
    """Sequences for a case: (tokens, whether there is a state) of each.

    Attributes:
        label: for messages.
        lengths: of each sequence.
    """

    label: str
    lengths: tuple[tuple[int, bool], ...]

    @property
    def tokens(self) -> int:
        """Of all sequences."""
        return sum(tokens for tokens, _ in self.lengths)

    @property
    def slots(self) -> int:
        """States, two of which are nobody's."""
        return len(self.lengths) + 2

    def arguments(self, draw: Draw) -> dict[str, object]:
        """The arguments of `SEQUENCES`, slots in random order."""
        starts = [sum(tokens for tokens, _ in self.lengths[:index]) for index in range(len(self.lengths) + 1)]
        return {
            "query_start_loc": draw.values(starts, torch.int32),
            "state_slots": draw.permutation(self.slots, torch.int32)[: len(self.lengths)],
            "has_initial_state": draw.values([initial for _, initial in self.lengths], torch.bool),
        }


DECODE = Ragged("decode", ((1, True), (1, True), (1, True)))
PREFILL = Ragged("prefill", ((9, False), (1, False), (17, False)))
MIXED = Ragged("mixed", ((1, True), (6, False), (0, True), (2, True), (1, False)))
BATCHES = (DECODE, PREFILL, MIXED)
