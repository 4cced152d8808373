"""The reference executor: runs a model graph as it stands with torch.

It proves the reading of the source. Whatever the graph computes here is what the analysis understood, so that logits
equal to the real model's mean that nothing was misread.
"""

from .decoding import Cache, advance
from .execution import execute, execute_nodes, misread, steps

__all__ = ["Cache", "advance", "execute", "execute_nodes", "misread", "steps"]
