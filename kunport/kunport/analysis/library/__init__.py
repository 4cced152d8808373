"""Which source and configuration a model is made of, found without importing any of it.

A model is named by a checkpoint folder, a modeling file, an architecture class or a model type of
Transformers; `locate` answers with a `Target`. Transformers' own tables (model type to class, to
configuration, to module) are read as text from the installed package.
"""

from kunport.analysis.library.locate import locate
from kunport.analysis.library.target import Target

__all__ = ["Target", "locate"]
