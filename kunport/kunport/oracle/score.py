"""Precision and recall of stated facts against labels."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kunport.oracle.labels import Labels, Scope

RIGHT, WRONG, MISSED, OPAQUE = "right", "wrong", "missed", "opaque"
_TOLERANCE = 2e-3  # of what a probe measures in float32


@dataclass(frozen=True, slots=True)
class Pair:
    """A labelled fact and what was stated of it; ``verdict`` is right, wrong, missed (not stated) or opaque."""

    case: str
    place: str
    key: str
    verdict: str
    label: Any
    stated: Any = None

    @property
    def kind(self) -> str:
        """The key without a norm's name."""
        return re.sub(r"\[.*\]", "[]", self.key)

    def __str__(self) -> str:
        stated = f", stated {self.stated!r}" if self.verdict != MISSED else ""
        return f"{self.verdict}: {self.case} {self.place or 'model'} {self.key}: {self.label!r}{stated}"


@dataclass(slots=True)
class Count:
    """How many labelled facts were stated right, wrong, not at all, or called opaque."""

    right: int = 0
    wrong: int = 0
    missed: int = 0
    opaque: int = 0
    cases: int = 0

    @property
    def precision(self) -> float:
        """Share of what was stated that is right; 1 where nothing was."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0

    @property
    def recall(self) -> float:
        """Share of what is labelled, and not called opaque, that was stated right; 1 where nothing is."""
        known = self.right + self.wrong + self.missed
        return self.right / known if known else 1.0


def judge(labels: Labels, facts: dict[str, Any], opaque: str = "") -> list[Pair]:
    """Compare the labels of a case with facts as data (`ModelFacts.as_dict`), layer by layer.

    ``opaque`` is why the analysis says nothing at all of the model; then every label is opaque.
    """
    layers = {f"{kind['stack']}.{index}": kind["facts"] for kind in facts["layers"] for index in kind["layers"]}
    pairs = list(_judge_scope(labels.case, "", labels.model, facts["model"], opaque))
    for path, scope in labels.layers.items():
        pairs += _judge_scope(labels.case, path, scope, layers.get(path, {}), opaque)
    return pairs


def _judge_scope(case: str, place: str, scope: Scope, facts: dict[str, Any], opaque: str) -> Iterator[Pair]:
    for key, label in scope.values.items():
        fact = facts.get(key)
        if opaque or (fact is not None and fact["status"] == "opaque"):
            yield Pair(case, place, key, OPAQUE, label, opaque or (fact or {}).get("reason"))
        elif fact is None:
            yield Pair(case, place, key, MISSED, label)
        else:
            right = any(agree(value, fact["value"]) for value in scope.accepts(key))
            yield Pair(case, place, key, RIGHT if right else WRONG, label, fact["value"])


def agree(label: Any, stated: Any) -> bool:
    """Whether a measured value and a stated one are the same."""
    numbers = [each for each in (label, stated) if isinstance(each, int | float) and not isinstance(each, bool)]
    if len(numbers) == 2:
        return math.isclose(label, stated, rel_tol=_TOLERANCE, abs_tol=1e-15)
    return type(label) is type(stated) and bool(label == stated)


def count(pairs: Iterable[Pair]) -> dict[str, Count]:
    """Counts by key, norms' names left out, in order of the keys."""
    counts: dict[str, Count] = {}
    cases: dict[str, set[str]] = {}
    for pair in pairs:
        each = counts.setdefault(pair.kind, Count())
        setattr(each, pair.verdict, getattr(each, pair.verdict) + 1)
        cases.setdefault(pair.kind, set()).add(pair.case)
    for key, each in counts.items():
        each.cases = len(cases[key])
    return dict(sorted(counts.items()))


def total(counts: dict[str, Count]) -> Count:
    """All keys together; ``cases`` is not summed."""
    return Count(*(sum(getattr(each, name) for each in counts.values()) for name in (RIGHT, WRONG, MISSED, OPAQUE)))
