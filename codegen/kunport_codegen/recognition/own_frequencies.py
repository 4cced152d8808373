"""Frequencies that the source computes by numbers of its own: which published formula gives them.

The numbers are looked for among those that the source computes with, so that a formula is only named where all of its
parameters stand there and it gives every frequency.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import Node

from .index import number
from .rules import Array

_MOST = 24  # numbers that are tried for each parameter


def formula(nodes: Iterable[Node], default: Array, found: Array) -> str | None:
    """``linear``, ``llama3`` or ``yarn``, as `frequencies` has them; None where none of them gives ``found``.

    Args:
        nodes: those that compute the frequencies.
        default: ``[n]``, the frequencies of the base alone.
        found: ``[n]``, the frequencies that the nodes compute.
    """
    if default.shape != found.shape or len(found) < 2 or np.any(found <= 0):
        return None
    numbers = _numbers(nodes)
    turns = any(math.isclose(each, wanted) for each in numbers for wanted in (math.pi, 2 * math.pi))
    stretched = default / found
    if np.allclose(stretched, stretched[0], rtol=1e-6) and any(np.isclose(numbers, stretched[0])):
        return "linear"
    factors = numbers[numbers > 1]
    for factor in factors[np.isclose(factors, stretched.max(), rtol=1e-6)] if turns else factors:
        kept = (found / default * factor - 1) / (factor - 1)  # 1 where a frequency stays, 0 where it is divided
        if np.all(kept > -1e-6) and np.all(kept < 1 + 1e-6):
            ramps = _by_wavelength(default, numbers) if turns else _by_place(len(found), numbers)
            if np.any(np.all(np.isclose(ramps, kept, atol=1e-5), axis=-1)):
                return "llama3" if turns else "yarn"
    return None


def _numbers(nodes: Iterable[Node]) -> Array:
    """The numbers among the operands, without their signs, from the smallest."""
    found = {0.0}
    for node in nodes:
        for arg in (*node.args, *node.kwargs.values()):
            if number(arg) is not None and math.isfinite(unwrap(arg)):
                found.add(abs(float(unwrap(arg))))
    return np.asarray(sorted(found)[:_MOST])


def _by_wavelength(default: Array, numbers: Array) -> Array:
    """Llama 3.1's shares ``[..., n]`` by every context, lower bound and span: linear in the turns within a context."""
    positive = numbers[numbers > 0]
    context, low, span = np.meshgrid(positive, numbers, positive, indexing="ij")
    turns = context[..., None] * default / (2 * math.pi)
    clipped: Array = np.clip((turns - low[..., None]) / span[..., None], 0, 1)
    return clipped


def _by_place(count: int, numbers: Array) -> Array:
    """YaRN's shares ``[..., n]`` by every start and span of its ramp: linear in the place of a frequency."""
    low, span = np.meshgrid(numbers, numbers[numbers > 0], indexing="ij")
    kept: Array = 1 - np.clip((np.arange(count) - low[..., None]) / span[..., None], 0, 1)
    return kept
