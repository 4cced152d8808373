"""The known model that is most like another one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from kunport.variants.compare import (
    Difference,
    Sides,
    Summary,
    differences,
    distance,
    least_distance,
    sides_of,
    summary_of,
)
from kunport.variants.fact import ModelFacts
from kunport.variants.known.table import known_models


@dataclass(frozen=True, slots=True)
class Nearest:
    """The nearest known model: its model type and architecture, how far it is, and the facts in which it differs."""

    model_type: str
    architecture: str
    distance: float
    differences: tuple[Difference, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        found = {"model_type": self.model_type, "architecture": self.architecture, "distance": round(self.distance, 2)}
        return {**found, "differences": [each.as_dict() for each in self.differences]}


def find_nearest(facts: ModelFacts) -> Nearest | None:
    """The known model of another architecture with the least weight of differing facts; None for a model of no layers.

    Of several that are equally near, the one with fewer differences, then the first by name.
    """
    if not facts.kinds:
        return None
    best: tuple[float, int, str, list[Difference]] | None = None
    ours = sides_of(facts)
    others = {name: known for name, known in _known().items() if known[0] != facts.architecture}
    summary = summary_of(ours)
    bounds = {name: least_distance(summary, theirs) for name, (_, _, theirs) in others.items()}
    for name in sorted(others, key=lambda each: (bounds[each], each)):
        if best is not None and bounds[name] > best[0] + 1e-9:
            break
        found = differences(ours, others[name][1])
        rank = distance(found), len(found), name, found
        if best is None or rank[:3] < best[:3]:
            best = rank
    if best is None:
        return None
    return Nearest(best[2], others[best[2]][0], best[0], tuple(best[3]))


@cache
def _known() -> dict[str, tuple[str, Sides, Summary]]:
    """Architecture and what is compared of every known model that has layers, by model type."""
    found = {name: (model.architecture, sides_of(model)) for name, model in known_models().items() if model.kinds}
    return {name: (architecture, sides, summary_of(sides)) for name, (architecture, sides) in found.items()}
