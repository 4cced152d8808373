"""Every example of every variant in the catalogue, run as a test."""

from functools import cache

import pytest
from kunport.analysis import analyze
from kunport.variants import ModelFacts, read_facts
from kunport.variants.catalogue import Entry, catalogue
from kunport.variants.variant import ABSENT, Example

EXAMPLES = [(entry, example) for entry in catalogue() for example in entry.variant.examples]


def depth(wanted: Example) -> int:
    """As many layers as some example of the same model looks at, so that one analysis serves all."""
    same = [each for _, each in EXAMPLES if each.model == wanted.model and each.config == wanted.config]
    return max(each.layer for each in same) + 1


@cache
def facts(model: str, config: tuple) -> ModelFacts:
    return read_facts(analyze(model, config=dict(config)).graph)


def key_of(entry: Entry, example: Example) -> str:
    return example.key or next(iter(entry.variant.keys))


@pytest.mark.parametrize(
    ("entry", "example"), EXAMPLES, ids=[f"{entry.folder}-{entry.name}-{each.model}" for entry, each in EXAMPLES]
)
def test_the_example_holds(entry, example):
    found = facts(example.model, tuple({"num_hidden_layers": depth(example), **example.config}.items()))
    scope = found.model if entry.variant.scope == "model" else found.layer(example.layer)
    fact = scope.get(key_of(entry, example))
    if example.value == ABSENT:
        assert fact is None
        return
    assert fact is not None
    assert fact.reason == ""
    assert fact.value == example.value
    if example.fields is not None:
        assert fact.fields == example.fields


@pytest.mark.parametrize("entry", catalogue(), ids=lambda entry: f"{entry.folder}-{entry.name}")
def test_every_variant_shows_what_matches_and_what_does_not(entry):
    assert entry.doc, "the docstring is the reference page"
    keys = {example.key or key_of(entry, example) for example in entry.variant.examples}
    named = {key.replace("NAME", name) for key in entry.variant.keys for name in ("", "input_layernorm")}
    assert len(entry.variant.examples) > len({each for each in keys if each in named}) - 1
    values = {repr(example.value) for example in entry.variant.examples}
    assert len(values) > 1 or entry.name in (
        "chunk",
        "alibi",
        "kv_sharing",
        "indexer",
        "layers",
        "state",
        "unexplained",
    )


def test_a_key_is_read_by_one_variant():
    keys = [key for entry in catalogue() for key in entry.variant.keys]
    assert len(keys) == len(set(keys))
