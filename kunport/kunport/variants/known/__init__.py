"""The facts of every text decoder of Transformers under its default configuration, as generated data."""

from kunport.variants.known.nearest import Nearest, find_nearest
from kunport.variants.known.table import known_model, known_models, pack, read_known

__all__ = ["Nearest", "find_nearest", "known_model", "known_models", "pack", "read_known"]
