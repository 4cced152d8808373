"""What a model is and what it does differently, in sentences with source lines, from its graph."""

from kunport.description.describe import Description, Unknown, describe, unknowns_of
from kunport.description.findings import Line, name_layers

__all__ = ["Description", "Line", "Unknown", "describe", "name_layers", "unknowns_of"]
