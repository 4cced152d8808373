"""How the tensors of a checkpoint reach the module tree, read from Transformers' own conversion table.

`read_renames` does it for a located model. Below it, `conversions_of` reads the table for the models in a tree,
`from_checkpoint` maps the names that a checkpoint has, and `as_saved` those that ``save_pretrained`` would write.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kunport.analysis.checkpoint import has_weights, read_checkpoint
from kunport.analysis.library.target import Target
from kunport.analysis.renames.checkpoint_names import Names, as_saved, from_checkpoint
from kunport.analysis.renames.conversion import Conversion
from kunport.analysis.renames.conversion_table import SubModel, conversions_of

__all__ = ["Conversion", "Names", "SubModel", "as_saved", "conversions_of", "from_checkpoint", "read_renames"]


def read_renames(target: Target, models: Sequence[SubModel], base: str, state: Collection[str]) -> Names:
    """The renames of a model: those of its checkpoint's names, else of the names that saving it would write.

    ``models`` are the pretrained models in its tree, the root first, ``base`` the name that the root gives its base
    model (``base_model_prefix``), ``state`` the names of its parameters and saved buffers.

    Raises:
        KunportError: the checkpoint or the table of conversions cannot be read.
    """
    # Transformers does not convert for custom code, which may share a name with its own.
    conversions = [] if target.custom else conversions_of(models, base)
    if target.checkpoint is not None and has_weights(target.checkpoint):
        return from_checkpoint(conversions, base, state, read_checkpoint(target.checkpoint))
    return as_saved(conversions, state)
