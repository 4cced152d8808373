"""The simulator of a generation in the place of the vendor's wheel, for the time of a test."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from kunport_runtime.operators.implementation import Implementation
from kunport_runtime.providers.vendor.generation import known_generations
from kunport_runtime.providers.vendor.offers import implementations
from kunport_runtime.providers.vendor.wheel import Wheel, installed_wheel

GENERATIONS = tuple(each.module for each in known_generations())


@contextmanager
def simulated(generation: str = "1") -> Iterator[Wheel]:
    """The simulated wheel, which vendor functions find within."""
    with patch.dict("os.environ", {"KUNPORT_SIMULATOR": generation}):
        installed_wheel.cache_clear()
        logging.disable(logging.WARNING)
        try:
            yield installed_wheel()
        finally:
            logging.disable(logging.NOTSET)
            installed_wheel.cache_clear()
            for module in (*GENERATIONS, "kunport_runtime.providers.vendor.implementations"):
                sys.modules.pop(module, None)


def offered(wheel: Wheel) -> dict[str, Implementation]:
    """Operator -> the vendor's implementation."""
    return {each.operator: each for each in implementations(wheel)}
