"""Calls of every operator, by family: what each strategy draws is what torch accepts."""

import shape_creation  # noqa: F401
import shape_elementwise  # noqa: F401
import shape_indexing  # noqa: F401
import shape_normalisation  # noqa: F401
import shape_pieces  # noqa: F401
import shape_products  # noqa: F401
import shape_reductions  # noqa: F401
import shape_views  # noqa: F401
from shape_registering import CALLS

__all__ = ["CALLS"]
