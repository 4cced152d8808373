"""What the products share."""

from __future__ import annotations

from collections.abc import Mapping

from kunport_runtime.operators.contract import FLOATS, TensorArgument, reads
from kunport_runtime.operators.tolerance import Tolerance, rounded

BIAS: TensorArgument = reads("bias", "out_size", "added to each row", optional=True)
RESULTS = FLOATS


def product_tolerance() -> Mapping[str, Tolerance]:
    """Of sums of products of about unit size in float32, in any order, rounded once on each side."""
    return rounded(2, scale=2.0)
