"""How far two models are apart at least, by their packed facts: cheap enough to ask of every known model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from kunport.variants.compare import weight_of

# Key -> the value that all layers have, or all values with their share in percent; None where something is opaque.
Shares = dict[str, str | frozenset[tuple[str, int]] | None]
# Of the model, and of its layers.
Summary = tuple[Shares, Shares]


def summary_of(packed: Mapping[str, Any]) -> Summary:
    """What packed facts (see `pack`) say of every key that is no norm's: those may be paired in many ways."""
    kinds = [kind for kind in packed["layers"] if kind["stack"] == packed["layers"][0]["stack"]]
    return _of_one(packed["model"]), _of_one(kinds[0]) if len(kinds) == 1 else _of_many(kinds)


def _of_one(kind: Mapping[str, Any]) -> Shares:
    found: Shares = {key: repr(value) for key, value in kind["values"].items() if not key.startswith("norm[")}
    return found | dict.fromkeys(key for key in kind["opaque"] if not key.startswith("norm["))


def _of_many(kinds: list[Mapping[str, Any]]) -> Shares:
    each_of = [(len(kind["layers"]), _of_one(kind)) for kind in kinds]
    total = sum(count for count, _ in each_of) or 1
    found: Shares = {}
    for key in dict.fromkeys(key for _, shares in each_of for key in shares):
        counts: Counter[Any] = Counter()
        for count, shares in each_of:
            counts[shares.get(key, "absent")] += count
        if None in counts:
            found[key] = None
        elif len(counts) == 1:
            (found[key],) = counts
        else:
            found[key] = frozenset((value, round(100 * count / total)) for value, count in counts.items())
    return found


def least_distance(left: Summary, right: Summary) -> float:
    """What two models differ by at least: the weights of the keys on which they do not agree."""
    return sum(weight_of(key) for ours, theirs in zip(left, right, strict=True) for key in _apart(ours, theirs))


def _apart(ours: Shares, theirs: Shares) -> Iterator[str]:
    for key, held in ours.items():
        if held is None or theirs.get(key) != held:
            yield key
    yield from (key for key in theirs if key not in ours)
