from __future__ import annotations

import numpy as np
import pytest
from comparison_drawing import answer, reference, references
from hypothesis import given
from hypothesis import strategies as st
from kunport.validation.comparison import Expected, compare_logprobs


@given(references(), st.none() | st.integers(1, 4))
def test_equal_values_have_no_error(expected: Expected, top: int | None) -> None:
    observed = answer(expected, top=top)
    errors = compare_logprobs(expected.steps, observed.step_ids, observed.steps)
    assert errors.largest.max(initial=0.0) == 0.0
    assert errors.total == 0.0
    assert errors.not_finite == 0
    assert errors.compared >= observed.steps.size


@given(references(), st.floats(1e-4, 10.0), st.booleans(), st.data())
def test_a_planted_error_is_found_where_it_is(
    expected: Expected, error: float, above: bool, data: st.DataObject
) -> None:
    observed = answer(expected)
    row = data.draw(st.integers(0, len(expected.steps) - 1))
    column = data.draw(st.integers(0, observed.steps.shape[1] - 1))
    values = observed.steps.copy()
    values[row, column] += error if above else -error
    errors = compare_logprobs(expected.steps, observed.step_ids, values)
    assert int(errors.largest.argmax()) == row
    assert errors.token[row] == observed.step_ids[row, column]
    assert errors.largest[row] == pytest.approx(error, rel=1e-2)
    assert errors.got[row] == pytest.approx(values[row, column])


@given(references(), st.sampled_from([np.nan, np.inf, -np.inf]), st.data())
def test_what_is_not_finite_counts_and_hides_no_other_error(
    expected: Expected, bad: float, data: st.DataObject
) -> None:
    observed = answer(expected)
    values = observed.steps + np.float32(0.5)
    row = data.draw(st.integers(0, len(values) - 1))
    values[row, 0] = bad
    errors = compare_logprobs(expected.steps, observed.step_ids, values)
    assert errors.not_finite == 1
    assert errors.largest[row] == pytest.approx(0.5, abs=1e-5)


def test_a_token_that_both_rule_out_is_no_error() -> None:
    expected = np.log(
        np.array([[0.25, 0.75, 0.0]], dtype=np.float32),
        where=[[True, True, False]],
        out=np.full((1, 3), -np.inf, np.float32),
    )
    errors = compare_logprobs(expected, np.array([[0, 1, 2]]), expected.copy())
    assert errors.not_finite == 0
    assert errors.largest.tolist() == [0.0]


def test_a_likely_token_that_the_engine_leaves_out_is_an_error() -> None:
    expected = reference(0, 1, 3, 10)
    order = np.argsort(-expected.steps, axis=1)
    listed = np.delete(order[:, :5], 0, axis=1)  # all but the best: an engine that never finds it likely
    errors = compare_logprobs(expected.steps, listed, np.take_along_axis(expected.steps, listed, axis=1))
    assert (errors.token == order[:, 0]).all()
    # Proven is the distance to the least likely listed one but one: the last may be the actual token.
    assert errors.largest == pytest.approx(np.full(3, 1.5), abs=1e-5)


@given(references(), st.integers(1, 3), st.data())
def test_the_actual_token_may_rank_anywhere(expected: Expected, top: int, data: st.DataObject) -> None:
    actual = data.draw(
        st.lists(
            st.integers(0, expected.prompt.shape[1] - 1), min_size=len(expected.prompt), max_size=len(expected.prompt)
        )
    )
    observed = answer(expected, actual, top)
    errors = compare_logprobs(expected.prompt, observed.prompt_ids, observed.prompt)
    assert errors.largest.max(initial=0.0) == 0.0


def test_an_answer_of_another_form_is_refused() -> None:
    expected = reference(0, 4, 2, 8)
    observed = answer(expected)
    with pytest.raises(ValueError, match="2 positions of 3"):
        compare_logprobs(expected.prompt, observed.prompt_ids[:2], observed.prompt[:2])
    with pytest.raises(ValueError, match="token 8 of a vocabulary of 8"):
        compare_logprobs(expected.prompt, observed.prompt_ids + 1, observed.prompt)


def test_a_prompt_of_one_token_has_nothing_to_compare() -> None:
    expected = reference(0, 1, 2, 8)
    observed = answer(expected)
    errors = compare_logprobs(expected.prompt, observed.prompt_ids, observed.prompt)
    assert errors.compared == 0
    assert errors.largest.size == 0
