"""Random numbers from the host, equal on every rank and device.

With tensor parallelism each rank samples for itself from equal logits, and only equal random numbers give equal tokens.
The vendor's generator on the device ignores its seed, so no device's generator is asked.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

_DRAW = 4
"""By how much one draw moves the offset of a generator: what vLLM takes back where it discards a draw."""


class RequestGenerator(torch.Generator):
    """The random numbers of a request with a seed: the n-th depends on the seed and n, and on nothing else.

    So neither the batches that a request ran in, nor being interrupted, nor a draw that was taken back show in them.
    The numbers are Philox's (Salmon and others, 2011, https://doi.org/10.1145/2063384.2063405).
    """

    def __new__(cls, seed: int) -> RequestGenerator:
        return super().__new__(cls)

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.manual_seed(seed)
        self._offset = 0

    def get_offset(self) -> int:
        return self._offset

    def set_offset(self, offset: int) -> RequestGenerator:
        self._offset = offset
        return self

    def draw(self) -> float:
        """The next number of [0, 1)."""
        number = uniform(self.initial_seed(), self._offset // _DRAW)
        self._offset += _DRAW
        return number


def uniform(seed: int, index: int) -> float:
    """A number of [0, 1) for a seed and an index, exact in float32."""
    bits = np.random.Philox(key=seed % 2**64, counter=index)
    return float(np.random.Generator(bits).random(dtype=np.float32))


class HostRandom:
    """Uniform numbers in [0, 1) for the rows of a batch, float32.

    Rows of requests without a seed draw in turn from one generator, which every rank seeds alike and asks alike: ranks
    run the same batches.
    """

    def __init__(self, seed: int) -> None:
        self._shared = torch.Generator().manual_seed(seed)

    def rows(self, count: int, generators: Mapping[int, torch.Generator]) -> Tensor:
        """``[count]``; a row in ``generators`` draws from its request's own."""
        numbers = torch.rand(count, generator=self._shared)
        for row, generator in generators.items():
            if isinstance(generator, RequestGenerator):
                numbers[row] = generator.draw()
            else:  # a device's own, in a batch that vLLM only warms up with
                numbers[row] = uniform(generator.initial_seed(), 0)
        return numbers
