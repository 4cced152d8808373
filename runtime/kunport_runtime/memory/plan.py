"""How much memory a worker will need, before it takes any: from the checkpoint's headers and the engine's limits."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from kunport_runtime.memory.budget import MemoryBudgetError, readable

_LONGEST_HEADER = 100 << 20  # bytes, the format's own limit
_BITS = {"F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16, "I16": 16, "U16": 16}
_FLOATS = ("F64", "F32", "F16", "BF16")


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes that one worker is expected to need.

    Attributes:
        weights: parameters, in the dtype that they are served in.
        kv_cache: of the cache, None where it takes what is left.
        activations: tensors of one step at its largest, roughly.
    """

    weights: int
    kv_cache: int | None
    activations: int

    @property
    def total(self) -> int:
        """What is known to be needed."""
        return self.weights + (self.kv_cache or 0) + self.activations

    def check(self, budget: int) -> None:
        """Raise where the budget is too small for the plan: sooner than after minutes of loading.

        Raises:
            MemoryBudgetError: it is.
        """
        if self.total > budget:
            raise MemoryBudgetError(
                f"This model needs about {readable(self.total)} on each worker (weights {readable(self.weights)}, KV "
                f"cache {readable(self.kv_cache or 0)}, activations {readable(self.activations)}) and the memory "
                f"budget is {readable(budget)}.",
                "Raise the budget, use more ranks, or lower the KV cache.",
            )


def weight_bytes(checkpoint: Path, element: int, ranks: int) -> int:
    """Bytes of a rank's share of a checkpoint's parameters.

    Matrices are divided among ranks and vectors held by each, which is how vLLM divides a model; a matrix that it
    holds whole (a router's) makes the answer a little low.

    Args:
        checkpoint: folder with safetensors files; 0 where it has none.
        element: bytes of a floating-point element as served.
        ranks: of tensor parallelism.
    """
    total = 0
    for file in sorted(checkpoint.glob("*.safetensors")):
        for name, entry in _header(file).items():
            if name == "__metadata__":
                continue
            bits = 8 * element if entry["dtype"] in _FLOATS else _BITS.get(entry["dtype"], 8)
            size = prod(entry["shape"]) * bits // 8
            total += size // ranks if len(entry["shape"]) > 1 else size
    return total


def activation_bytes(tokens: int, sequences: int, hidden: int, widest: int, vocabulary: int, element: int) -> int:
    """Bytes of a step's tensors at their largest: four rows of the hidden size (the residual stream, its norm, an input
    and an output), the widest inner row twice for each token, and float32 logits twice for each sequence.
    """
    return tokens * (4 * hidden + 2 * widest) * element + 2 * 4 * sequences * vocabulary


def _header(file: Path) -> dict[str, Any]:
    """Names, dtypes and shapes of a safetensors file."""
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        if not 0 < length <= _LONGEST_HEADER:
            return {}  # the loader says what is wrong with it
        header: dict[str, Any] = json.loads(opened.read(length))
        return header
