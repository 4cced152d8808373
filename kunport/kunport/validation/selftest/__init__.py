"""The harness judged by what it catches: bugs planted in adapters that are right, and adapters that are left right.

One engine is started for each adapter, and forks itself for every bug: the fork takes the changed class in place of
the right one, on the same cache, and runs. The reference then judges what was recorded as it would any adapter.
"""

from kunport.validation.selftest.run import FAMILIES, Subject, run
from kunport.validation.selftest.table import Row, Table

__all__ = ["FAMILIES", "Row", "Subject", "Table", "run"]
