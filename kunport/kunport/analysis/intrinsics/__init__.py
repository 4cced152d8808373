"""What the analysis knows without reading source: one file a family, all in one `registry`."""

from . import builtins, decorators, modules, standard, tensors, torch, transformers
from .registry import NAMES, TENSOR_MEMBERS, external

# Importing a family registers its names.
FAMILIES = (builtins, decorators, modules, standard, tensors, torch, transformers)

__all__ = ["FAMILIES", "NAMES", "TENSOR_MEMBERS", "external"]
