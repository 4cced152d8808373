"""Prints, as JSON, what the contracts' own cases show of Triton's kernels: OPERATOR:DTYPE arguments, one row a case.

Run with TRITON_INTERPRET=1, which Triton reads as it is imported: hence a process of its own.
"""

import json
import sys

from kunport_runtime.operators.check import check
from kunport_runtime.operators.registry import registry

for argument in sys.argv[1:]:
    operator, _, dtype = argument.partition(":")
    implementation = registry.implementations(operator)["triton"]
    for outcome in check(registry.contract(operator), implementation, dtype):
        print(json.dumps([argument, outcome.case, outcome.skipped or outcome.fault, outcome.error]))
