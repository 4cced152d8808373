"""Arguments that the norms share."""

from __future__ import annotations

from kunport_runtime.operators.contract import option, reads
from kunport_runtime.operators.tolerance import rounded

CASTS = ("before_weight", "after_weight", "none")

WEIGHT = reads("weight", "size", "a factor for each element; none multiplies by nothing", optional=True)
EPSILON = option("epsilon", float, "added under the root")
OFFSET = option("offset", float, "added to the weight (Gemma: 1)", default=0.0)
CAST = option("cast", str, "where the result returns to the dtype of x", default="before_weight", choices=CASTS)

# The normed value, its product with the weight, and for cast "none" the square root and the factor: on each side.
TOLERANCE = rounded(6)
