"""The rotation frequencies that a configuration's ``rope_type`` stands for, by their published formulas."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Frequencies = NDArray[np.float64]


def frequencies(
    rope_type: str, theta: float, dim: int, parameters: Mapping[str, Any], config: Mapping[str, Any]
) -> Frequencies | None:
    """``[dim / 2]`` radians a position, None for a type whose formula is not known here.

    Args:
        rope_type: ``default``, ``linear``, ``dynamic``, ``llama3``, ``yarn``, ``longrope`` or ``proportional``. Those
            of ``dynamic`` and ``longrope`` hold up to the length that the model was trained with.
        theta: the base.
        dim: the number of rotated elements of a head.
        parameters: the configuration's description of this table (``factor`` and so on).
        config: the whole configuration.
    """
    default: Frequencies = theta ** (-np.arange(0, dim, 2) / dim)
    if rope_type in ("default", "dynamic"):
        return default
    if rope_type == "longrope":
        return default / np.asarray(parameters["short_factor"], dtype=np.float64)
    if rope_type == "proportional":
        return _proportional(default, dim, parameters)
    if rope_type == "linear":
        return default / float(parameters["factor"])
    if rope_type == "llama3":
        return _llama3(default, parameters)
    if rope_type == "yarn":
        return _yarn(default, theta, dim, parameters, config)
    return None


def _proportional(default: Frequencies, dim: int, parameters: Mapping[str, Any]) -> Frequencies:
    """Gemma 4's share: all pairs of the head have a place, and those beyond the share do not turn."""
    turning = int(parameters.get("partial_rotary_factor", 1.0) * dim // 2)
    kept: Frequencies = np.where(np.arange(len(default)) < turning, default, 0.0)
    return kept / float(parameters.get("factor", 1.0))


def _llama3(default: Frequencies, parameters: Mapping[str, Any]) -> Frequencies:
    """Llama 3.1's smoothing: long wavelengths are stretched by ``factor``, short ones kept, those between blended."""
    context = parameters["original_max_position_embeddings"]
    factor, low, high = (float(parameters[each]) for each in ("factor", "low_freq_factor", "high_freq_factor"))
    share: Frequencies = np.clip((context * default / (2 * math.pi) - low) / (high - low), 0, 1)
    return (1 - share) * default / factor + share * default


def _yarn(
    default: Frequencies, theta: float, dim: int, parameters: Mapping[str, Any], config: Mapping[str, Any]
) -> Frequencies:
    """YaRN's "NTK-by-parts" (arXiv:2309.00071, section 3.2): a ramp between kept and interpolated frequencies."""
    context = parameters.get("original_max_position_embeddings") or config["max_position_embeddings"]

    def dimension(rotations: float) -> float:
        return dim * math.log(context / (rotations * 2 * math.pi)) / (2 * math.log(theta))

    low = dimension(parameters.get("beta_fast") or 32)
    high = dimension(parameters.get("beta_slow") or 1)
    if parameters.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    ramp: Frequencies = np.clip((np.arange(dim // 2) - low) / ((high - low) or 0.001), 0, 1)
    return default * (1 - ramp) + default / float(parameters["factor"]) * ramp
