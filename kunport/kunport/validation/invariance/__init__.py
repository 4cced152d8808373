"""The invariance matrix: the same requests under other circumstances, whose answers must stay the same.

One engine answers the requests all at once: those are the answers to keep. Each cell of the matrix asks again, in
another order, in pieces, from a cache, on other ranks or by another provider, and says how far apart the answers are.
"""

from kunport.validation.invariance.cells import CELLS, Cell
from kunport.validation.invariance.matrix import Matrix, Row
from kunport.validation.invariance.run import run

__all__ = ["CELLS", "Cell", "Matrix", "Row", "run"]
