"""The three-way limit: what the target may be off by is what the reference itself is off by in the same precision.

Of three results of the same inputs, ``truth`` is the reference in a wider precision (float64 for float32, float32 for
float16 and bfloat16), ``reference`` the reference in the target's precision, ``target`` what is judged. Then::

    ratio = |target - truth| / (|reference - truth| + floor)

with the Euclidean norm, and ``floor = FLOOR * epsilon * |truth|``, ``epsilon`` being the precision's relative spacing.
The floor stands for orders of summation and formulas that differ and are both right, and for reductions that the
reference does in the wider precision in both runs, so that it is not off at all. A ratio above `RATIO` is wrong; below
one means that the target is more precise than the reference.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

RATIO = 1.2
FLOOR = 2.0


@dataclass(slots=True)
class ThreeWay:
    """Sums over everything that was compared at one place, and its worst row.

    Attributes:
        target, reference: squared distance from the truth.
        truth: squared norm.
        worst: the largest ratio of a single row, the scale of whose floor is at least the rows' root mean square.
        where: that row's place, as the caller counts.
        epsilon: the precision's relative spacing.
        floor: in place of `FLOOR`.
    """

    target: float = 0.0
    reference: float = 0.0
    truth: float = 0.0
    worst: float = 0.0
    where: tuple[int, int] = (0, 0)
    epsilon: float = 0.0
    floor: float = FLOOR

    @property
    def ratio(self) -> float:
        """NaN where something was not finite."""
        floor = self.floor * self.epsilon * self.truth**0.5
        return _quotient(self.target**0.5, self.reference**0.5 + floor)

    @property
    def relative(self) -> float:
        """The target's distance from the truth, relative to the truth's norm."""
        return _quotient(self.target**0.5, self.truth**0.5)

    @property
    def wrong(self) -> bool:
        """Written so that NaN is wrong."""
        return not (self.ratio <= RATIO and self.worst <= ROW_RATIO)


# A row is judged by a wider limit: the largest of many rows lies above what they have on average.
ROW_RATIO = 4.0


def judge(
    target: torch.Tensor,
    reference: torch.Tensor,
    truth: torch.Tensor,
    dtype: torch.dtype,
    request: int = 0,
    floor: float = FLOOR,
) -> ThreeWay:
    """One comparison of ``[rows, columns]`` each; ``dtype`` is the target's precision."""
    wide = truth.double()
    off, own = (target.double() - wide).norm(dim=1), (reference.double() - wide).norm(dim=1)
    norms = wide.norm(dim=1)
    epsilon = torch.finfo(dtype).eps
    scale = norms.clamp(min=float(norms.square().mean().sqrt()))
    allowed = float(own.square().mean().sqrt()) + floor * epsilon * scale
    ratios = torch.where(off == 0, 0.0, off / allowed).nan_to_num(nan=torch.inf)
    row = int(ratios.argmax())
    target_, reference_, truth_ = (float(each.square().sum()) for each in (off, own, norms))
    return ThreeWay(target_, reference_, truth_, float(ratios[row]), (request, row), epsilon, floor)


def total(parts: list[ThreeWay]) -> ThreeWay:
    """All comparisons at one place together."""
    worst = max(parts, key=lambda part: part.worst)
    return ThreeWay(
        sum(part.target for part in parts),
        sum(part.reference for part in parts),
        sum(part.truth for part in parts),
        worst.worst,
        worst.where,
        parts[0].epsilon,
        parts[0].floor,
    )


def _quotient(above: float, below: float) -> float:
    return 0.0 if above == 0 else above / below if below else float("inf")
