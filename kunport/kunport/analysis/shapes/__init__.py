"""Shapes and dtypes of operators' results, by rules of our own so that analysis needs no torch.

One file a family of operators; `registry` holds them together, `sizes` is the arithmetic that keeps expressions.
"""

from . import creation, elementwise, indexing, joining, normalisation, ordering, products, reductions, views
from .registry import RULES, canonical, infer
from .tensor import Result, ShapeError, Size, TensorType

FAMILIES = (creation, elementwise, indexing, joining, normalisation, ordering, products, reductions, views)

__all__ = ["FAMILIES", "RULES", "Result", "ShapeError", "Size", "TensorType", "canonical", "infer"]
