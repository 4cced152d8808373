"""Numbers that formulas are tried on have the distributions that they are called by, and no pattern."""

import numpy as np
import pytest
from kunport_codegen.recognition.draw import Draw

COUNT = 100_000


def test_uniform_numbers_fill_their_interval_evenly():
    found = Draw().uniform(-1, 3, COUNT)
    counts, _ = np.histogram(found, bins=16, range=(-1, 3))
    assert counts.sum() == COUNT
    assert np.abs(counts / COUNT * 16 - 1).max() < 0.05


def test_whole_numbers_are_all_in_their_range():
    found = Draw().integers(2, 7, (100, 50))
    assert found.dtype == np.int64
    assert {*found.flat} == {2, 3, 4, 5, 6}


def test_normal_numbers_have_the_moments_of_the_normal_distribution():
    found = Draw().standard_normal((COUNT // 10, 10))
    moments = [np.mean(found**power) for power in (1, 2, 3, 4)]
    assert np.allclose(moments, [0, 1, 0, 3], atol=0.1)


@pytest.mark.parametrize("lag", [1, 2, 7, 64, 128])
def test_numbers_say_nothing_of_later_ones(lag):
    found = Draw().standard_normal(COUNT)
    assert abs(np.corrcoef(found[:-lag], found[lag:])[0, 1]) < 0.02


def test_draws_differ_from_each_other_and_are_the_same_in_every_process():
    draw, again = Draw(), Draw()
    first, second = draw.standard_normal(1000), draw.standard_normal(1000)
    assert len({*first, *second}) == 2000
    assert np.array_equal(again.standard_normal(1000), first)
    assert Draw().integers(0, 100, 5).tolist() == [88, 43, 2, 97, 10]
