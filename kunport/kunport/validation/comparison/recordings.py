"""What the two sides write down about one request, and how it lies on disk.

Shape letters: P prompt tokens, T generated tokens, V vocabulary, K log-probabilities the engine gives at a position.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

REQUEST = "request.json"  # beside the recordings: what was asked of both sides
Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Expected:
    """The reference's side.

    Attributes:
        prompt: ``[P - 1, V]``; row i holds the log-probabilities of the token at position i + 1.
        steps: ``[T, V]``; row t holds those of generated token t, given the reference's own tokens before it.
        tokens: ``[T]``, the most likely ones.
    """

    prompt: Floats
    steps: Floats
    tokens: Ints

    def save(self, folder: Path, request: int) -> None:
        """One .npy file an array, so that a reader can map the large ones into memory."""
        np.save(folder / f"{request}.prompt.npy", self.prompt)
        np.save(folder / f"{request}.steps.npy", self.steps)
        np.save(folder / f"{request}.tokens.npy", self.tokens)

    @classmethod
    def load(cls, folder: Path, request: int) -> Expected:
        names = ("prompt", "steps", "tokens")
        prompt, steps, tokens = (np.load(folder / f"{request}.{name}.npy", mmap_mode="r") for name in names)
        return cls(prompt, steps, tokens)


@dataclass(frozen=True, slots=True)
class Observed:
    """The engine's side.

    Attributes:
        prompt_ids, prompt: ``[P - 1, K]``: tokens and their log-probabilities, rows as in `Expected`.
        step_ids, steps: ``[T, K]``.
        tokens: ``[T]``, what it chose.
        repeated: ``[T]``, what it chose in a second run without log-probabilities.
    """

    prompt_ids: Ints
    prompt: Floats
    step_ids: Ints
    steps: Floats
    tokens: Ints
    repeated: Ints

    def save(self, folder: Path, batch: int, request: int) -> None:
        arrays = {name: getattr(self, name) for name in self.__slots__}
        np.savez(folder / f"batch{batch}.{request}.npz", **arrays)

    @classmethod
    def load(cls, folder: Path, batch: int, request: int) -> Observed:
        with np.load(folder / f"batch{batch}.{request}.npz") as arrays:
            return cls(**{name: arrays[name] for name in cls.__slots__})
