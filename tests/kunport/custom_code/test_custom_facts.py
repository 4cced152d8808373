"""What is said about custom code is right, or is said to be opaque: never wrong, never left out."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from fixture_models import NAMES, Fixture, analyzed
from kunport.variants import read_facts

# (fixture, layer) that is not seen as a layer: a list of modules without a class of its own.
UNSEEN = {("einops_rearrange", 1)}


# Of the 840 facts that are labelled, as many are opaque or unseen, or do not say what they depend on; fewer is better.
OPAQUE = 34
OTHER_STATUS = 4


@pytest.mark.parametrize("name", NAMES)
def test_facts_are_right_or_opaque(name: str) -> None:
    wrong = {key: fact for key, (value, _), fact in _labelled(name) if _is_wrong(fact, value)}
    assert wrong == {}


def test_no_more_facts_are_opaque_than_were() -> None:
    facts = [fact for name in NAMES for _, _, fact in _labelled(name, UNSEEN)]
    assert sum(fact is None or fact["status"] == "opaque" for fact in facts) <= OPAQUE


def test_no_more_facts_have_another_status_than_had() -> None:
    found = [(fact["status"], status) for name in NAMES for _, (_, status), fact in _labelled(name) if fact]
    assert sum(stated not in ("opaque", status) for stated, status in found) <= OTHER_STATUS


def _labelled(name: str, unseen: Iterable[Any] = ()) -> Iterator[tuple[Any, Any, dict[str, Any] | None]]:
    """Place and key, the labelled value and status, and what is stated, where it is seen and where ``unseen``."""
    labels = Fixture(name).expected["facts"]
    facts = read_facts(analyzed(name).graph).as_dict()
    stated = {layer: kind["facts"] for kind in facts["layers"] for layer in kind["layers"]}
    layers = [(layer, group["facts"]) for group in labels["layers"] for layer in group["layers"]]
    for place, keys in [*layers, ("model", labels["model"])]:
        found = facts["model"] if place == "model" else stated.get(place, {})
        if (name, place) not in UNSEEN or (name, place) in unseen:
            yield from (((place, key), label, found.get(key)) for key, label in keys.items())


def _is_wrong(fact: dict[str, Any] | None, value: Any) -> bool:
    if fact is None:
        return True
    expected = pytest.approx(value) if isinstance(value, float) else value
    return fact["status"] != "opaque" and fact["value"] != expected
