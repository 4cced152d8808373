from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from comparison_drawing import answer, reference
from kunport.validation.comparison import Expected, Observed, compare_batch
from kunport.validation.limits import Limits
from kunport.validation.report import Batch, Memory

# A ragged batch: prompts of four, one and six tokens.
EXPECTED = [reference(1, 4, 3, 9), reference(2, 1, 3, 9), reference(3, 6, 3, 9)]


def compare(observed: list[Observed], expected: list[Expected] = EXPECTED) -> Batch:
    return compare_batch(expected, observed, Limits(), Memory(1000, None), seconds=0.5)


def test_a_ragged_batch_that_agrees() -> None:
    batch = compare([answer(expected) for expected in EXPECTED])
    assert (batch.size, batch.greedy_equal, batch.greedy_total, batch.ties) == (3, 9, 9, 0)
    assert batch.max_error == batch.mean_error == 0.0
    assert batch.compared == sum((len(each.prompt) + 3) * 10 for each in EXPECTED)
    assert batch.tokens_per_second == 18.0
    # Nothing is known of position 0, and the longest request ends at position 8.
    assert batch.error_by_position == [None, *[0.0] * 8]


def test_an_error_is_placed_in_its_request() -> None:
    observed = [answer(expected) for expected in EXPECTED]
    observed[2].prompt[1, 4] += 0.25  # row 1 is the token at position 2
    batch = compare(observed)
    assert batch.prompt_error == batch.max_error == pytest.approx(0.25, abs=1e-6)
    assert batch.decode_error == 0.0
    assert batch.worst is not None
    assert (batch.worst.request, batch.worst.position) == (2, 2)
    assert batch.worst.expected is not None
    assert batch.worst.got == pytest.approx(batch.worst.expected + 0.25, abs=1e-6)
    assert batch.error_by_position[2] == pytest.approx(0.25, abs=1e-6)
    assert batch.mean_error == pytest.approx(0.25 / batch.compared, rel=1e-4)


def test_decoding_is_compared_at_its_own_positions() -> None:
    observed = [answer(expected) for expected in EXPECTED]
    observed[1].steps[2, 0] -= 0.5  # the prompt has one token, so that step 2 is position 3
    batch = compare(observed)
    assert batch.decode_error == pytest.approx(0.5, abs=1e-6)
    assert batch.worst is not None
    assert (batch.worst.request, batch.worst.position) == (1, 3)


def test_after_a_mismatch_nothing_of_the_request_is_compared() -> None:
    observed = [answer(expected) for expected in EXPECTED]
    tokens = observed[0].tokens.copy()
    tokens[1] = (tokens[1] + 1) % 9
    changed = replace(observed[0], tokens=tokens)
    changed.steps[2] += 7.0  # another context: not comparable, not an error
    batch = compare([changed, *observed[1:]])
    assert batch.decode_error == 0.0
    assert (batch.greedy_equal, batch.greedy_total) == (7, 9)
    assert [(each.request, each.step, each.got) for each in batch.mismatches] == [(0, 1, tokens[1])]


def test_a_second_run_that_differs_is_named() -> None:
    observed = [answer(expected) for expected in EXPECTED]
    repeated = (observed[1].repeated + 1) % 9
    batch = compare([observed[0], replace(observed[1], repeated=repeated), observed[2]])
    assert batch.mismatches == []
    assert batch.repeat_differs == [1]


def test_values_that_are_not_numbers_are_counted() -> None:
    observed = [answer(expected) for expected in EXPECTED]
    observed[0].prompt[:] = np.nan
    assert compare(observed).not_finite == observed[0].prompt.size


def test_a_batch_of_one_token_prompts_compares_decoding_only() -> None:
    batch = compare([answer(EXPECTED[1])], [EXPECTED[1]])
    assert batch.prompt_error == 0.0
    assert batch.compared == 30


def test_recordings_survive_the_disk(tmp_path: Path) -> None:
    expected, observed = EXPECTED[0], answer(EXPECTED[0], top=4)
    expected.save(tmp_path, 5)
    observed.save(tmp_path, 2, 5)
    for original, loaded in ((expected, Expected.load(tmp_path, 5)), (observed, Observed.load(tmp_path, 2, 5))):
        for name in original.__slots__:
            np.testing.assert_array_equal(getattr(original, name), getattr(loaded, name))
