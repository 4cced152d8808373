"""Token flattening: from ``[batch, sequence, ...]`` to ``[tokens, ...]``.

Each rule takes one operator of the source and says what it does to the axes that remain. Operators that only
move the batch and sequence axes vanish; those that compute across tokens, and are not recognised as something
that the engine does itself, are refused.
"""

from kunport_codegen.lowering.tokens.flatten import flatten_tokens

__all__ = ["flatten_tokens"]
