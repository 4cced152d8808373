"""How the tensors of a checkpoint reach the module tree, read from Transformers' own conversion table.

`conversions_of` reads the table for the models in a tree, `from_checkpoint` maps the names that a checkpoint has,
and `as_saved` the names that ``save_pretrained`` would write where there is no checkpoint yet.
"""

from kunport.analysis.renames.checkpoint_names import Names, as_saved, from_checkpoint
from kunport.analysis.renames.conversion import Conversion
from kunport.analysis.renames.conversion_table import SubModel, conversions_of

__all__ = ["Conversion", "Names", "SubModel", "as_saved", "conversions_of", "from_checkpoint"]
