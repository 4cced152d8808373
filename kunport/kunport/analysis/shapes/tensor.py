"""What a shape rule reads and makes."""

from __future__ import annotations

from dataclasses import dataclass

from kunport_codegen.expression import Scalar
from kunport_codegen.graph import DType

Size = int | Scalar


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape and dtype of a tensor; a size that is not a plain constant is a `Scalar`."""

    shape: tuple[Size, ...]
    dtype: DType

    @property
    def rank(self) -> int:
        return len(self.shape)


Result = TensorType | tuple[TensorType, ...]


class ShapeError(Exception):
    """The shape or the dtype of a result cannot be told; ``reason`` says why in one sentence."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
