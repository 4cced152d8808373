"""How far two models are apart at least, by their packed facts: cheap enough to ask of every known model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from kunport.variants.compare import weight_of

# Scope and key -> the values that layers have, each with their share in percent; None where something is opaque.
Summary = dict[tuple[str, str], frozenset[tuple[str, int]] | None]


def summary_of(packed: Mapping[str, Any]) -> Summary:
    """What packed facts (see `pack`) say of every key that is no norm's: those may be paired in many ways."""
    kinds = [kind for kind in packed["layers"] if kind["stack"] == packed["layers"][0]["stack"]]
    layers = [(len(kind["layers"]), kind) for kind in kinds]
    return {**_shares("model", [(0, packed["model"])]), **_shares("layer", layers)}


def _shares(scope: str, kinds: list[tuple[int, Mapping[str, Any]]]) -> Summary:
    total = sum(count for count, _ in kinds) or 1
    opaque = {key for _, kind in kinds for key in kind["opaque"]}
    keys = dict.fromkeys(key for _, kind in kinds for key in (*kind["values"], *kind["opaque"]))
    found: Summary = {}
    for key in keys:
        if key.startswith("norm["):
            continue
        if key in opaque:
            found[scope, key] = None
            continue
        counts: Counter[str] = Counter()
        for count, kind in kinds:
            counts[repr(kind["values"][key]) if key in kind["values"] else "absent"] += count
        found[scope, key] = frozenset((value, round(100 * count / total)) for value, count in counts.items())
    return found


def least_distance(left: Summary, right: Summary) -> float:
    """What two models differ by at least: the weights of the keys on which they do not agree."""
    keys = left.keys() | right.keys()
    apart = [key for scope, key in keys if (held := left.get((scope, key))) is None or held != right.get((scope, key))]
    return sum(map(weight_of, apart))
