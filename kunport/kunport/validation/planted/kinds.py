"""The registry: a kind of bug is a function that plants it and says which module is wrong now."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from kunport.validation.planted.source import Place, Source

Plant = Callable[[Source], Place]
KINDS: dict[str, Plant] = {}
_ROOMS = ("norms", "rotary", "attention", "projections", "networks", "router", "residual", "embedding", "head", "state")


def kind(plant: Plant) -> Plant:
    """Register a kind under its function's name."""
    assert plant.__name__ not in KINDS
    KINDS[plant.__name__] = plant
    return plant


def kinds() -> dict[str, Plant]:
    """All kinds by name."""
    for room in _ROOMS:
        import_module(f"kunport.validation.planted.{room}")
    return KINDS
