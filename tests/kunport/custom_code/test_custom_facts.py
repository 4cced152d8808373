"""What is said about custom code is right, or is said to be opaque: never wrong, never left out."""

from collections.abc import Iterator
from typing import Any

import pytest
from fixture_models import NAMES, Fixture, analyzed
from kunport.variants import read_facts

# Of the 2144 facts that are labelled, as many are opaque where a reader knows, or do not say what they depend on; fewer is better.
OPAQUE = 30
OTHER_STATUS = 9


@pytest.mark.parametrize("name", NAMES)
def test_facts_are_right_or_opaque(name: str) -> None:
    wrong = {key: fact for key, label, fact in _labelled(name) if _is_wrong(fact, *label)}
    assert wrong == {}


def test_no_more_facts_are_opaque_than_were() -> None:
    found = [(fact, status) for name in NAMES for _, (_, status), fact in _labelled(name)]
    assert sum(fact["status"] == "opaque" != status for fact, status in found if fact) <= OPAQUE


def test_no_more_facts_have_another_status_than_had() -> None:
    found = [(fact["status"], status) for name in NAMES for _, (_, status), fact in _labelled(name) if fact]
    assert sum(stated not in ("opaque", status) for stated, status in found) <= OTHER_STATUS


def _labelled(name: str) -> Iterator[tuple[Any, Any, dict[str, Any] | None]]:
    """Place and key, the labelled value and status, and what is stated.

    The status ``opaque`` is that of what no term can say, for the reason that the fixture gives under ``opaque``.
    """
    labels = Fixture(name).expected["facts"]
    facts = read_facts(analyzed(name).graph).as_dict()
    stated = {layer: kind["facts"] for kind in facts["layers"] for layer in kind["layers"]}
    layers = [(layer, group["facts"]) for group in labels["layers"] for layer in group["layers"]]
    for place, keys in [*layers, ("model", labels["model"])]:
        found = facts["model"] if place == "model" else stated.get(place, {})
        yield from (((place, key), label, found.get(key)) for key, label in keys.items())


def _is_wrong(fact: dict[str, Any] | None, value: Any, status: str) -> bool:
    if fact is None or (status == "opaque" != fact["status"]):
        return True
    expected = pytest.approx(value) if isinstance(value, float) else value
    return fact["status"] != "opaque" and fact["value"] != expected
