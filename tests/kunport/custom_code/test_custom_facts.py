"""What is said about custom code is right, or is said to be opaque: never wrong, never left out."""

from collections.abc import Iterator
from typing import Any

import pytest
from fixture_models import NAMES, Fixture, analyzed
from kunport.variants import read_facts

# Of the 2144 facts that are labelled, as many are opaque where a reader knows; fewer is better.
OPAQUE = 30


@pytest.mark.parametrize("name", NAMES)
def test_facts_are_right_or_opaque(name: str) -> None:
    wrong = {key: fact for key, label, fact in _labelled(name) if _is_wrong(fact, *label)}
    assert wrong == {}


def test_no_more_facts_are_opaque_than_were() -> None:
    found = [(fact, status) for name in NAMES for _, (_, status), fact in _labelled(name)]
    assert sum(fact["status"] == "opaque" != status for fact, status in found if fact) <= OPAQUE


def test_what_is_proved_and_what_depends_is_told_apart() -> None:
    """By the rule of the reference: window of ``sandwich_caps``, for one, where the source itself counts layers."""
    found = [(name, *place, fact["status"], label) for name in NAMES for place, label, fact in _labelled(name) if fact]
    assert [each for *each, stated, (_, status) in found if stated not in ("opaque", status)] == []


def test_what_decides_how_a_fused_layer_is_taken_apart_is_named() -> None:
    layers = read_facts(analyzed("multi_query_fused").graph).kinds[0].facts
    assert all("multi_query" in layers[key].fields for key in ("attention.kv_heads", "attention.packing"))
    assert layers["position.pairing"].fields == ()


def test_a_default_of_the_old_base_class_is_a_field() -> None:
    assert read_facts(analyzed("bloomlike").graph).model["head.tied"].fields == ("tie_word_embeddings",)


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
