"""What each branch is multiplied by before it is added to the residual stream: 1.0 unless a field or number says so."""

from __future__ import annotations

from kunport.variants.fact import Fact
from kunport.variants.model import Layer
from kunport.variants.stream import Stream, stream
from kunport.variants.variant import Example, Found, Variant

KEY = "residual.multiplier"


def read(layer: Layer) -> Found:
    """The factor; opaque where branches have different ones, or the stream cannot be followed."""
    found, model = stream(layer), layer.model
    factors = set(found.multipliers)
    if layer.unknowns:
        yield KEY, model.opaque(layer.unknowns[0])
    elif found.lost or found.learned or found.stretched or len(factors) > 1:
        why = found.lost or _why(found)
        yield KEY, Fact(None, found.where, reason=f"{found.where}: {why}")
    else:
        yield KEY, model.fact(factors.pop() if factors else 1.0, found.where, "", *found.factors)


def _why(found: Stream) -> str:
    if found.learned:
        return "a parameter multiplies a branch"
    return "the stream itself is multiplied" if found.stretched else "branches are multiplied by different numbers"


VARIANT = Variant(
    keys={KEY: "the factor"},
    scope="layer",
    read=read,
    examples=(
        Example("granite", 0.22, fields=("residual_multiplier",), config={"residual_multiplier": 0.22}),
        Example("llama", 1.0, fields=()),
    ),
)
