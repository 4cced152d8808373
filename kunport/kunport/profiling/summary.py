"""Sums of a profile: a row an operator and provider, a row a layer, and memory by tag."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kunport_runtime.operators.profile_files import Profile


@dataclass(frozen=True, slots=True)
class Row:
    """An operator on a provider, or a layer.

    Attributes:
        name: of the operator, or of the layer.
        provider: who ran it; "" of a layer, which has several.
        count: of calls.
        milliseconds: of all of them.
        share: of the whole.
        copied: bytes a second of its tensors, over those of a copy on the same device; None where they are not known.
        skipped: provider -> why it did not run it.
    """

    name: str
    provider: str
    count: int
    milliseconds: float
    share: float
    copied: float | None
    skipped: dict[str, str]


def by_operator(profiles: Sequence[Profile]) -> list[Row]:
    """Rows of operators and providers, what took longest first."""
    counts: Counter[tuple[str, str]] = Counter()
    spent: Counter[tuple[str, str]] = Counter()
    fastest: Counter[tuple[str, str]] = Counter()  # seconds that a copy of the bytes would take
    unknown: set[tuple[str, str]] = set()
    skipped: dict[tuple[str, str], dict[str, str]] = {}
    for profile in profiles:
        for total in profile.totals:
            key = total.operator, total.provider
            counts[key] += total.count
            spent[key] += total.nanoseconds
            skipped.setdefault(key, {}).update(total.skipped)
            if total.bytes is None or not profile.copy_rate:
                unknown.add(key)
            else:
                fastest[key] += total.bytes / profile.copy_rate  # type: ignore[assignment]
    whole = sum(spent.values())
    rows = [
        Row(
            operator, provider, counts[operator, provider], each / 1e6, each / max(whole, 1),
            None if (operator, provider) in unknown else 1e9 * fastest[operator, provider] / max(each, 1),
            skipped[operator, provider],
        )
        for (operator, provider), each in spent.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: -row.milliseconds)


def by_layer(profiles: Sequence[Profile]) -> list[Row]:
    """Rows of layers, what took longest first; calls outside all layers have the name ""."""
    counts: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    for total in (each for profile in profiles for each in profile.totals):
        counts[total.layer] += total.count
        spent[total.layer] += total.nanoseconds
    whole = max(sum(spent.values()), 1)
    rows = [Row(name, "", counts[name], each / 1e6, each / whole, None, {}) for name, each in spent.items()]
    return sorted(rows, key=lambda row: -row.milliseconds)
