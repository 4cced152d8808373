from __future__ import annotations

import numpy as np
from comparison_drawing import log_softmax, references
from hypothesis import given
from hypothesis import strategies as st
from kunport.validation.comparison import Expected, compare_greedy

TIE = 1e-3


def undecided(gap: float) -> Expected:
    """Three steps; at the second, token 1 is ``gap`` behind token 0, and token 2 far behind both."""
    steps = log_softmax(np.array([[5.0, 0.0, -5.0], [5.0, 5.0 - gap, -5.0], [0.0, 5.0, -5.0]]))
    return Expected(np.zeros((0, 3), np.float32), steps, np.array([0, 0, 1]))


@given(references())
def test_the_same_tokens_are_equal_to_the_end(expected: Expected) -> None:
    greedy = compare_greedy(expected, expected.tokens, TIE)
    assert (greedy.equal, greedy.total) == (len(expected.tokens), len(expected.tokens))
    assert greedy.same_context == len(expected.tokens)
    assert not greedy.tie
    assert greedy.mismatch is None


@given(references(), st.data())
def test_a_different_token_counts_from_where_it_is(expected: Expected, data: st.DataObject) -> None:
    step = data.draw(st.integers(0, len(expected.tokens) - 1))
    tokens = expected.tokens.copy()
    tokens[step] = (tokens[step] + 1) % expected.steps.shape[1]
    greedy = compare_greedy(expected, tokens, TIE)
    assert (greedy.equal, greedy.total, greedy.same_context) == (step, len(tokens), step + 1)
    assert greedy.mismatch is not None
    assert greedy.mismatch[:2] == (step, tokens[step])
    assert greedy.mismatch[2] >= 0.49


def test_a_tie_is_allowed_and_ends_the_comparison() -> None:
    greedy = compare_greedy(undecided(5e-4), np.array([0, 1, 0]), TIE)
    assert greedy.tie
    assert greedy.mismatch is None
    assert (greedy.equal, greedy.total, greedy.same_context) == (1, 1, 2)


def test_just_outside_of_a_tie_counts() -> None:
    assert compare_greedy(undecided(2e-3), np.array([0, 1, 1]), TIE).mismatch is not None


def test_a_third_token_counts_even_where_the_first_two_tie() -> None:
    greedy = compare_greedy(undecided(5e-4), np.array([0, 2, 1]), TIE)
    assert greedy.mismatch is not None
    assert greedy.mismatch[:2] == (1, 2)


def test_a_token_outside_of_the_vocabulary_counts() -> None:
    for token in (-1, 3):
        greedy = compare_greedy(undecided(0.1), np.array([token, 0, 1]), TIE)
        assert greedy.mismatch == (0, token, float("inf"))


def test_stopping_early_counts() -> None:
    greedy = compare_greedy(undecided(0.1), np.array([0, 0]), TIE)
    assert (greedy.equal, greedy.total) == (2, 3)
    assert greedy.mismatch == (2, None, float("inf"))


def test_a_reference_that_is_not_a_number_forgives_nothing() -> None:
    expected = undecided(0.0)
    expected.steps[1] = np.nan
    assert compare_greedy(expected, np.array([0, 1, 1]), TIE).mismatch is not None
