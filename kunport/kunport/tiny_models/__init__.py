"""Tiny models of every architecture, made offline from configuration alone, for tests and for a first port.

Each has about 0.2 M random parameters. A forward pass without a cache is the reference to compare with: cached
decoding is wrong or missing in a dozen architectures of the library itself.
"""

from kunport.tiny_models.build import build, build_config, randomize
from kunport.tiny_models.cases import Case, cases, find_case

__all__ = ["Case", "build", "build_config", "cases", "find_case", "randomize"]
