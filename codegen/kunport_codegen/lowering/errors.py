"""What lowering cannot do, said with the place in the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kunport_codegen.graph import Location


@dataclass(frozen=True, slots=True)
class Refusal:
    """One operator that has no place in the engine: where the source computes it, and why not."""

    where: Location
    op: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.op}: {self.reason}"


class LoweringError(Exception):
    """The model cannot be lowered. Names every operator that stands in the way, not only the first."""

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        self.refusals = tuple(dict.fromkeys(refusals))
        super().__init__("\n".join(str(refusal) for refusal in self.refusals))


class RefusedError(Exception):
    """Raised inside a pass for the operator at hand; the pass turns it into a `Refusal` and goes on."""
