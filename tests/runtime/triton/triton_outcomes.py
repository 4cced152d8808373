"""Prints, as JSON, what the contracts' own cases show of Triton's kernels: OPERATOR:DTYPE[:CASES] arguments, one row a case.

Run with TRITON_INTERPRET=1, which Triton reads as it is imported: hence a process of its own.
"""

import json
import sys
from itertools import islice

from kunport_runtime.operators.check import check
from kunport_runtime.operators.registry import registry

for argument in sys.argv[1:]:
    operator, dtype, *few = argument.split(":")
    implementation = registry.implementations(operator)["triton"]
    for outcome in islice(check(registry.contract(operator), implementation, dtype), *map(int, few or [1000])):
        print(json.dumps([argument, outcome.case, outcome.skipped or outcome.fault, outcome.error]))
