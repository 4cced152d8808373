"""What is said about custom code is right, or is said to be opaque: never wrong, never left out."""

from typing import Any

import pytest
from fixture_models import NAMES, Fixture, analyzed
from kunport.variants import read_facts

# (fixture, layer) that is not seen as a layer: a list of modules without a class of its own.
UNSEEN = {("einops_rearrange", 1)}


@pytest.mark.parametrize("name", NAMES)
def test_facts_are_right_or_opaque(name: str) -> None:
    fixture = Fixture(name)
    facts = read_facts(analyzed(name).graph).as_dict()
    stated = {layer: kind["facts"] for kind in facts["layers"] for layer in kind["layers"]}
    expected = [(layer, group["facts"]) for group in fixture.expected["facts"]["layers"] for layer in group["layers"]]
    wrong = {}
    for place, keys in [*expected, ("model", fixture.expected["facts"]["model"])]:
        found = facts["model"] if place == "model" else stated.get(place, {})
        for key, (value, _) in keys.items():
            fact = found.get(key)
            if (name, place) not in UNSEEN and _is_wrong(fact, value):
                wrong[place, key] = fact
    assert wrong == {}


def _is_wrong(fact: dict[str, Any] | None, value: Any) -> bool:
    if fact is None:
        return True
    expected = pytest.approx(value) if isinstance(value, float) else value
    return fact["status"] != "opaque" and fact["value"] != expected
