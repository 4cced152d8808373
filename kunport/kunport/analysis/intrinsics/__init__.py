"""What the analysis knows without reading source: one file a family, all in one `registry`."""

from . import builtins, decorators, modules, standard, tensors, torch, transformers
from .registry import NAMES, TENSOR_MEMBERS, external

__all__ = ["NAMES", "TENSOR_MEMBERS", "external"]
