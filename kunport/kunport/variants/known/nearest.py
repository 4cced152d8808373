"""The known model that is most like another one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from kunport.variants.compare import Difference, Sides, differences, distance, sides_of
from kunport.variants.fact import ModelFacts
from kunport.variants.known.bound import Summary, least_distance, summary_of
from kunport.variants.known.table import architecture_of, known_model, pack, read_known


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
    ours, summary = sides_of(facts), summary_of(pack(facts))
    others = {name: each for name, each in _summaries().items() if architecture_of(name) != facts.architecture}
    bounds = {name: least_distance(summary, theirs) for name, theirs in others.items()}
    for name in sorted(others, key=lambda each: (bounds[each], each)):
        if best is not None and bounds[name] > best[0] + 1e-9:
            break
        found = differences(ours, _sides(name))
        rank = distance(found), len(found), name, found
        if best is None or rank[:3] < best[:3]:
            best = rank
    return None if best is None else Nearest(best[2], architecture_of(best[2]), best[0], tuple(best[3]))


@cache
def _summaries() -> dict[str, Summary]:
    """Of every known model that has layers, by model type."""
    return {name: summary_of(packed) for name, packed in read_known()["models"].items() if packed["layers"]}


@cache
def _sides(name: str) -> Sides:
    return sides_of(known_model(name))
