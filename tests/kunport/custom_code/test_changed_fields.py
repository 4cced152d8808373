"""A fact whose value changes with a field of the configuration has named the field."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from fixture_models import Fixture
from kunport.analysis import Analysis, analyze
from kunport.errors import KunportError
from kunport.variants import Fact, read_facts
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

pytestmark = pytest.mark.untraced

FIXTURES = (
    *("argparse_tasks", "column_row", "deep_postnorm", "einops_rearrange", "enum_factories", "gains_by_depth"),
    *("keyword_transformer", "parallel_lists", "registries_and_enums", "score_functions", "value_mixing"),
    *("sandwich_list", "width_scaled"),
)
MODELS = ("llama", "qwen3", "gemma2", "deepseek_v3", "mixtral", "gpt_oss")
# What a configuration says of itself, of texts, of training and of how a result is returned.
_NO_PART = {
    *("transformers_version", "problem_type", "return_dict", "chunk_size_feed_forward", "initializer_range"),
    *("is_encoder_decoder", "use_cache", "attention_dropout", "pretraining_tp", "router_aux_loss_coef"),
    *("router_jitter_noise",),
}
_OTHER_TEXT = {"silu": "relu", "gelu": "silu", "relu": "gelu", "gelu_pytorch_tanh": "relu"}


@pytest.mark.parametrize("name", FIXTURES)
def test_fields_of_custom_code(name: str) -> None:
    fixture = Fixture(name)
    assert _unnamed(partial(_analyzed, fixture), fixture.config) == []


@pytest.mark.parametrize("name", MODELS)
def test_fields_of_a_model(name: str) -> None:
    small = {"num_hidden_layers": 2, "first_k_dense_replace": 1} if name == "deepseek_v3" else {"num_hidden_layers": 2}
    fields = CONFIG_MAPPING[name](**small).to_dict()
    assert _unnamed(lambda config: analyze(name, config={**small, **config}), fields) == []


def _analyzed(fixture: Fixture, config: dict[str, Any]) -> Analysis:
    if (fixture.folder / "config.json").is_file():
        return analyze(fixture.folder, config=config)
    target = fixture.folder / f"{fixture.expected['model'].partition('.')[0]}.py"
    return analyze(target, config={**fixture.config, **config})


def _unnamed(analyzed: Callable[[dict[str, Any]], Analysis], fields: dict[str, Any]) -> list[str]:
    """For each fact whose value another setting of a field changes, and that does not name the field: what it says."""
    stated, found, runs = _facts(analyzed({})), [], 0
    for field, value, other in _changes(fields):
        try:
            changed = _facts(analyzed({field: other}))
        except KunportError:
            continue
        runs += 1
        for key, fact in stated.items():
            now = changed.get(key)
            if now is None or "opaque" in (fact.status, now.status) or now.value == fact.value:
                continue
            if field not in {each.partition("[")[0].partition(".")[0] for each in fact.fields}:
                found.append(
                    f"{key} is {fact.value}, {fact.status} {fact.fields}; {now.value}: {field} {value}->{other}"
                )
    assert runs > 0
    return found


def _changes(fields: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """A field, its value and another one."""
    for field, value in fields.items():
        if field in _NO_PART or "token" in field.replace("per_tok", "") or field.startswith(("output_", "vocab")):
            continue
        if isinstance(value, bool):
            yield field, value, not value
        elif isinstance(value, int):
            yield field, value, value * 2 or 2
        elif isinstance(value, float):
            yield field, value, value / 2 or 0.25
        elif value is None:
            yield field, value, 2
        elif isinstance(value, list) and value != value[::-1]:
            yield field, value, value[::-1]
        elif isinstance(value, str) and value in _OTHER_TEXT:
            yield field, value, _OTHER_TEXT[value]


def _facts(analysis: Analysis) -> dict[tuple[int | str, str], Fact]:
    facts = read_facts(analysis.graph)
    longest = [kind for kind in facts.kinds if kind.stack == facts.kinds[0].stack]
    layers: dict[tuple[int | str, str], Fact] = {
        (layer, key): fact for kind in longest for layer in kind.layers[:1] for key, fact in kind.facts.items()
    }
    return {**layers, **{("model", key): fact for key, fact in facts.model.items()}}
