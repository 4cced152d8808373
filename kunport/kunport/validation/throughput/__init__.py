"""Speed of an adapter beside vLLM's own class, on one checkpoint and in one run.

Each side has an engine in a process of its own. They take turns, one idle while the other works, so that a slow minute
of the machine meets both; ratios are taken of neighbours, and who goes first alternates.
"""

from kunport.validation.throughput.comparison import Side, Throughput, compare_throughput

__all__ = ["Side", "Throughput", "compare_throughput"]
