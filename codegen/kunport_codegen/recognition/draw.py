"""Numbers to try a formula on: without a pattern, and the same in every process.

numpy has better ones, but importing them takes as long as recognising a model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .rules import Array

_STEP = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio


class Draw:
    """Draws one after the other, by counting.

    Each count is mixed as in SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators").
    """

    def __init__(self) -> None:
        self._drawn = 0

    def uniform(self, low: float, high: float, shape: Sequence[int] | int) -> Array:
        """Numbers from ``low`` to below ``high``, each as likely as every other."""
        return low + (high - low) * self._bits(shape) * 2.0**-53

    def integers(self, low: int, high: int, shape: Sequence[int] | int) -> Array:
        """Whole numbers from ``low`` to ``high - 1``, each as likely as every other."""
        return np.floor(self.uniform(low, high, shape)).astype(np.int64)

    def standard_normal(self, shape: Sequence[int] | int) -> Array:
        """Numbers of mean 0 and variance 1 (Box and Muller, 1958)."""
        radius = np.sqrt(-2 * np.log(1 - self.uniform(0, 1, shape)))
        turned: Array = radius * np.cos(self.uniform(0, 2 * math.pi, shape))
        return turned

    def _bits(self, shape: Sequence[int] | int) -> Array:
        """53 bits each."""
        count = int(np.prod(shape))
        state = np.arange(self._drawn + 1, self._drawn + count + 1, dtype=np.uint64) * _STEP
        self._drawn += count
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: Array = ((state ^ (state >> np.uint64(31))) >> np.uint64(11)).astype(np.float64).reshape(shape)
        return mixed
