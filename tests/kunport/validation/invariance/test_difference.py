"""Two answers are compared token by token, whatever order their log-probabilities come in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kunport.validation.comparison import Observed
from kunport.validation.invariance.difference import differ

VOCABULARY, PROMPT, STEPS = 6, 4, 3


def answer(seed: int) -> Observed:
    """An answer in which every row's first token is the likeliest, and is named again at the end, as vLLM does."""
    draw = np.random.default_rng(seed)

    def table(rows: int) -> tuple[np.ndarray, np.ndarray]:
        logits = draw.normal(size=(rows, VOCABULARY))
        values = (logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))).astype(np.float32)
        ids = np.argsort(-values, axis=1)
        ids = np.concatenate([ids, ids[:, :1]], axis=1)
        return ids, np.take_along_axis(values, ids, axis=1)

    (prompt_ids, prompt), (step_ids, steps) = table(PROMPT), table(STEPS)
    return Observed(prompt_ids, prompt, step_ids, steps, step_ids[:, 0], step_ids[:, 0])


def shuffled(one: Observed, seed: int) -> Observed:
    """The same answer with its columns in another order."""
    order = np.random.default_rng(seed).permutation(VOCABULARY + 1)
    return replace(
        one,
        prompt_ids=one.prompt_ids[:, order],
        prompt=one.prompt[:, order],
        step_ids=one.step_ids[:, order],
        steps=one.steps[:, order],
    )


def changed(one: Observed, name: str, at: tuple[int, int], value: float) -> Observed:
    values = getattr(one, name).copy()
    ids = getattr(one, name.removesuffix("s") + "_ids" if name == "steps" else "prompt_ids")
    values[at[0], ids[at[0]] == ids[at]] = value
    return replace(one, **{name: values})


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_the_order_of_columns_does_not_matter(seed, order):
    one = answer(seed)
    apart = differ([one], [shuffled(one, order)], VOCABULARY, 1e-3)
    assert (apart.error, apart.divergence, apart.equal, apart.total) == (0.0, 0.0, STEPS, STEPS)


@given(st.integers(0, 1000), st.sampled_from(["prompt", "steps"]), st.integers(0, 2), st.integers(0, VOCABULARY - 1))
def test_one_value_that_differs_is_seen(seed, name, row, column):
    one = answer(seed)
    other = changed(one, name, (row, column), float(getattr(one, name)[row, column]) - 0.25)
    apart = differ([answer(seed + 1), one], [answer(seed + 1), shuffled(other, seed)], VOCABULARY, 1e-3)
    assert apart.error == pytest.approx(0.25, rel=1e-4)
    assert (apart.divergence > 0) == (name == "steps")


@pytest.mark.parametrize("value", [np.nan, -np.inf, np.inf])
def test_what_is_not_finite_is_infinitely_far(value):
    one = answer(0)
    assert differ([one], [changed(one, "prompt", (1, 2), value)], VOCABULARY, 1e-3).error == np.inf
    assert differ([changed(one, "prompt", (1, 2), value)], [one], VOCABULARY, 1e-3).error == np.inf


def test_equal_infinities_are_equal():
    one = changed(answer(0), "steps", (1, 2), -np.inf)
    apart = differ([one], [one], VOCABULARY, 1e-3)
    assert (apart.error, apart.divergence) == (0.0, 0.0)


def test_another_token_ends_the_comparison_and_counts_unless_it_was_a_tie():
    one = answer(3)
    second = one.step_ids[1, 1]
    other = replace(one, tokens=np.array([one.tokens[0], second, 0]), steps=one.steps + np.array([[0], [0], [9.0]]))
    gap = float(one.steps[1, 0] - one.steps[1, 1])
    apart = differ([one], [other], VOCABULARY, gap / 2)
    assert (apart.equal, apart.total, apart.error) == (1, STEPS, 0.0)
    apart = differ([one], [other], VOCABULARY, gap * 2)
    assert (apart.equal, apart.total) == (1, 1)


def test_of_the_likeliest_tokens_those_are_compared_that_both_sides_name():
    one = answer(5)
    few = replace(one, step_ids=one.step_ids[:, :2], steps=one.steps[:, :2])
    other = replace(one, step_ids=one.step_ids[:, 1:3], steps=one.steps[:, 1:3] + 0.5)
    apart = differ([few], [other], VOCABULARY, 1e-3)
    assert apart.error == pytest.approx(0.5)
    assert apart.divergence is None


def test_prompts_without_log_probabilities_are_left_out_and_missing_positions_are_an_error():
    one = answer(7)
    none = replace(one, prompt_ids=one.step_ids[:0], prompt=one.steps[:0])
    assert differ([one], [none], VOCABULARY, 1e-3).error == 0.0
    with pytest.raises(ValueError, match="3 positions of 4"):
        differ([one], [replace(one, prompt_ids=one.prompt_ids[1:], prompt=one.prompt[1:])], VOCABULARY, 1e-3)
