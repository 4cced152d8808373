"""Checkpoints with one planted fault each."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import TypeVar

Shape = tuple[int, ...]
T = TypeVar("T")
SOUND = "sound"


def plant(fault: str, tensors: Mapping[str, T], shape: Callable[[T], Shape], seed: int) -> dict[str, T] | None:
    """The tensors with a fault of the kind; None where these have no place for it.

    Args:
        fault: ``sound`` (none), ``missing``, ``extra``, ``swapped`` (two of unlike shapes) or ``misshapen`` (one has
            another's shape).
        tensors: name -> tensor, in any representation.
        shape: gives a tensor's shape.
        seed: decides which are damaged.
    """
    draw = random.Random(seed)
    names = sorted(tensors)
    damaged = dict(tensors)
    if fault == "missing":
        del damaged[draw.choice(names)]
    elif fault == "extra":
        name = draw.choice(names)
        damaged[f"{name}_of_another_model"] = tensors[name]
    elif fault in ("swapped", "misshapen"):
        pairs = [(one, other) for one in names for other in names if shape(tensors[one]) != shape(tensors[other])]
        if not pairs:
            return None
        one, other = draw.choice(pairs)
        damaged[one] = tensors[other]
        if fault == "swapped":
            damaged[other] = tensors[one]
    return damaged


FAULTS = ("missing", "extra", "swapped", "misshapen")
