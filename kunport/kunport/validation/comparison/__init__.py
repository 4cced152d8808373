"""Reference against engine, as arithmetic on arrays: no process, no framework."""

from kunport.validation.comparison.batch import compare_batch
from kunport.validation.comparison.greedy import Greedy, compare_greedy
from kunport.validation.comparison.logprobs import Errors, compare_logprobs
from kunport.validation.comparison.recordings import Expected, Observed

__all__ = ["Errors", "Expected", "Greedy", "Observed", "compare_batch", "compare_greedy", "compare_logprobs"]
