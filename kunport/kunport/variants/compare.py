"""Two models side by side: the facts in which they differ, and which models are alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kunport.variants.fact import Fact, ModelFacts

_NORM = re.compile(r"norm\[(.*)\]\.(\w+)$")
# What a difference weighs: sizes and settings hardly tell architectures apart, kinds do. Others weigh 1.
_LIGHT = frozenset(
    (
        *("attention.heads", "attention.kv_heads", "attention.head_dim", "attention.value_dim", "attention.scale"),
        *("attention.window", "attention.chunk", "position.base", "position.dims", "position.scaling", "mlp.size"),
        *("router.experts", "router.top_k", "layers", "norm.size", "norm.epsilon", "norm.epsilon_source", "head.tied"),
        *("residual.multiplier", "embedding.scale", "head.scale", "router.scale", "experts.shared"),
    )
)
_HEAVY = frozenset(("attention.kind", "position.kind", "mlp.kind", "residual.order", "norm.kind", "router.scoring"))


def is_size(key: str) -> bool:
    """Whether a key holds a size or a setting, which hardly tells architectures apart."""
    return _plain(key) in _LIGHT


@lru_cache(maxsize=4096)
def _plain(key: str) -> str:
    """A key without the name of a norm."""
    found = _NORM.match(key)
    return f"norm.{found[2]}" if found is not None else key


@dataclass(frozen=True, slots=True)
class Held:
    """A value that some layers have, or the model where ``layers`` is empty; no ``fact`` where the key is absent."""

    fact: Fact | None
    layers: tuple[int, ...]

    def as_dict(self) -> dict[str, Any]:
        return {"layers": list(self.layers), **(self.fact.as_dict() if self.fact is not None else {"absent": True})}


@dataclass(frozen=True, slots=True)
class Difference:
    """A key that two models do not agree on, and what each says, by layers.

    Norms that have no namesake in the other model are paired in order, and called ``norm[NAME|OTHER]``.
    """

    key: str
    left: tuple[Held, ...]
    right: tuple[Held, ...]

    @property
    def weight(self) -> float:
        """See `weight_of`."""
        return weight_of(self.key)

    def as_dict(self) -> dict[str, Any]:
        left, right = ([held.as_dict() for held in side] for side in (self.left, self.right))
        return {"key": self.key, "left": left, "right": right}


def weight_of(key: str) -> float:
    """How much a difference in a key says about the architecture."""
    return 0.1 if is_size(key) else 3.0 if _plain(key) in _HEAVY else 1.0


def compare(left: ModelFacts, right: ModelFacts) -> list[Difference]:
    """The keys in which two models differ: those of the model first, then those of layers, each in reading order.

    Layers count by their share: two models agree on a key where each value holds for the same share of layers. An
    opaque fact differs from everything, another opaque one included.
    """
    return differences(sides_of(left), sides_of(right))


def differences(left: Sides, right: Sides) -> list[Difference]:
    """What `compare` gives, of sides that were made before."""
    found = []
    for sides in zip(left, right, strict=True):
        ours, theirs = _paired(*sides)
        for key in dict.fromkeys((*ours, *theirs)):
            left_says, right_says = ours.get(key, _ABSENT), theirs.get(key, _ABSENT)
            if left_says.shares is None or left_says.shares != right_says.shares:
                found.append(Difference(key, left_says.held, right_says.held))
    return found


def distance(differences: list[Difference]) -> float:
    """The weights of differences together: 0 for the same facts."""
    return sum(each.weight for each in differences)


@dataclass(frozen=True, slots=True)
class Said:
    """What a model says on a key, and each value's share of the layers in percent; None where something is opaque."""

    held: tuple[Held, ...]
    shares: dict[str, float] | None


Side = dict[str, Said]
Sides = tuple[Side, Side]
_ABSENT = Said((Held(None, ()),), None)


def sides_of(facts: ModelFacts) -> Sides:
    """What is compared: the model's facts, and those of its layers."""
    return _model(facts), _layers(facts)


def _model(facts: ModelFacts) -> Side:
    return {key: _said((Held(fact, ()),)) for key, fact in facts.model.items()}


def _layers(facts: ModelFacts) -> Side:
    """For each key of the longest stack's layers, its values with the layers that have them."""
    kinds = [kind for kind in facts.kinds if kind.stack == facts.kinds[0].stack]
    found: Side = {}
    for key in dict.fromkeys(key for kind in kinds for key in kind.facts):
        values: dict[str, tuple[Fact | None, list[int]]] = {}
        for kind in kinds:
            fact = kind.facts.get(key)
            name = "absent" if fact is None else repr((fact.value, fact.reason != ""))
            values.setdefault(name, (fact, []))[1].extend(kind.layers)
        found[key] = _said(tuple(Held(fact, tuple(sorted(layers))) for fact, layers in values.values()))
    return found


def _said(held: tuple[Held, ...]) -> Said:
    if any(each.fact and each.fact.reason for each in held):
        return Said(held, None)
    total = sum(len(each.layers) for each in held) or 1
    named = ((repr(each.fact.value) if each.fact is not None else "absent", len(each.layers)) for each in held)
    return Said(held, {name: round(100 * count / total) for name, count in named})


def _paired(left: Side, right: Side) -> tuple[Side, Side]:
    """Both sides, with norms that have no namesake on the other called by both names, in order."""
    ours, theirs = _norms(left), _norms(right)
    lonely, others = [name for name in ours if name not in theirs], [name for name in theirs if name not in ours]
    both = {name: f"{name}|{other}" for name, other in zip(lonely, others, strict=False)}
    back = {other: both[name] for name, other in zip(lonely, others, strict=False)}
    return (
        {_rename(key, both): held for key, held in left.items()},
        {_rename(key, back): held for key, held in right.items()},
    )


def _norms(side: Mapping[str, object]) -> list[str]:
    keys = (key for key in side if key.startswith("norm["))
    return list(dict.fromkeys(found[1] for key in keys if (found := _NORM.match(key)) is not None))


def _rename(key: str, names: Mapping[str, str]) -> str:
    found = _NORM.match(key) if key.startswith("norm[") else None
    return key if found is None or found[1] not in names else f"norm[{names[found[1]]}].{found[2]}"
