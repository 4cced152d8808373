"""How far a result may be from the reference's, and why that far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# The largest relative error of one rounding to nearest: half a unit in the last place.
ROUNDING = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8 / 2}


@dataclass(frozen=True, slots=True)
class Tolerance:
    """``|result - reference| <= absolute + relative * |reference|``, element by element.

    Attributes:
        absolute: for elements near 0, where terms cancel.
        relative: for the others.
        source: where the two numbers come from.
    """

    absolute: float
    relative: float
    source: str


def rounded(roundings: int, *, scale: float = 1.0, float32: float = 1e-5) -> Mapping[str, Tolerance]:
    """The tolerance of an operator that computes in float32 and rounds a result on its way.

    Args:
        roundings: how many times a value is rounded to the operator's dtype on the way to a result, on both sides
            together: two correct implementations may differ by that many half units in the last place.
        scale: the size of the terms that may cancel in a result near 0.
        float32: the tolerance in float32, where the order of a sum is what differs.
    """
    half = {
        dtype: Tolerance(
            scale * roundings * ROUNDING[dtype],
            roundings * ROUNDING[dtype],
            f"{roundings} roundings of half a unit in the last place, of results and of terms up to {scale:g}",
        )
        for dtype in ("float16", "bfloat16")
    }
    exact = Tolerance(float32 * scale, float32, "sums in another order")
    return {"float32": exact, **half}
