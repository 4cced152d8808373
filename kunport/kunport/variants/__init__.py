"""Facts as data: what a model does, in the field's terms, with how sure that is and the line that says so.

`read_facts` reads them from a model graph. Each variant that it knows is one file in the folders of this package: its
docstring is the reference page, its examples are its tests.
"""

from kunport.variants.compare import Difference, compare
from kunport.variants.fact import Fact, LayerKind, ModelFacts
from kunport.variants.reading import read_facts

__all__ = ["Difference", "Fact", "LayerKind", "ModelFacts", "compare", "read_facts"]
