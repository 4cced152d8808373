"""Draws the inputs of a contract's cases: seeded, in the layouts that arguments may have, with poison around them."""

from __future__ import annotations

import torch


class Draw:
    """A source of tensors, the same for the same seed on every device.

    Args:
        dtype: of what is drawn where nothing else is said.
        device: where tensors are put.
        seed: of everything that is drawn.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device | str = "cpu", seed: int = 0) -> None:
        self.dtype = dtype
        self.device = torch.device(device)
        self._generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int, scale: float = 1.0, dtype: torch.dtype | None = None, spare: int = 0) -> torch.Tensor:
        """Normal numbers times ``scale``.

        Args:
            shape: of the tensor.
            scale: their standard deviation.
            dtype: ``self.dtype`` by default.
            spare: so many elements after each row that belong to something else, as in a slice of a packed
                projection; they hold NaN.
        """
        return self._lay(torch.randn(shape, generator=self._generator) * scale, dtype or self.dtype, spare)

    def uniform(
        self, *shape: int, low: float = 0.0, high: float = 1.0, dtype: torch.dtype | None = None, spare: int = 0
    ) -> torch.Tensor:
        """Numbers from ``low`` to ``high``; the rest as in `normal`."""
        numbers = torch.rand(shape, generator=self._generator) * (high - low) + low
        return self._lay(numbers, dtype or self.dtype, spare)

    def integers(self, *shape: int, high: int, low: int = 0, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        """Whole numbers from ``low`` to ``high - 1``."""
        return torch.randint(low, high, shape, generator=self._generator).to(dtype).to(self.device)

    def permutation(self, count: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        """0 to ``count - 1`` in random order."""
        return torch.randperm(count, generator=self._generator).to(dtype).to(self.device)

    def poison(self, *shape: int, dtype: torch.dtype | None = None, spare: int = 0) -> torch.Tensor:
        """An output nothing of which may survive: NaN, or the smallest whole number."""
        dtype = dtype or self.dtype
        if not dtype.is_floating_point:
            return torch.full(shape, torch.iinfo(dtype).min, dtype=dtype, device=self.device)
        return self._lay(torch.full(shape, torch.nan), dtype, spare)

    def values(self, numbers: list[int] | list[float] | list[bool], dtype: torch.dtype) -> torch.Tensor:
        """These numbers."""
        return torch.tensor(numbers, dtype=dtype, device=self.device)

    def _lay(self, numbers: torch.Tensor, dtype: torch.dtype, spare: int) -> torch.Tensor:
        """``numbers`` as a view of rows that are ``spare`` elements longer."""
        numbers = numbers.to(dtype).to(self.device)
        if not spare:
            return numbers
        *outer, size = numbers.shape
        wide = torch.full((*outer, size + spare), torch.nan, device=self.device).to(dtype)
        wide[..., :size] = numbers
        return wide[..., :size]
