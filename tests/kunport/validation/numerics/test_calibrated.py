"""The three-way limit and the measures beside it."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from kunport.validation.numerics import FLOOR, RATIO, judge, measure
from kunport.validation.numerics.calibrated import total
from kunport.validation.numerics.metrics import agreement, divergence


def drawn(seed: int, rows: int = 8, columns: int = 64) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(st.integers(0, 10_000), st.sampled_from([torch.float32, torch.bfloat16, torch.float16]))
def test_rounding_of_the_same_kind_is_never_wrong(seed: int, dtype: torch.dtype) -> None:
    truth = drawn(seed)
    rounded = truth.to(dtype)
    assert not judge(rounded, rounded, truth, dtype).wrong
    assert not judge(truth, rounded, truth, dtype).wrong  # more precise than the reference


@given(st.integers(0, 10_000), st.sampled_from([torch.float32, torch.bfloat16]))
def test_an_error_of_one_row_is_wrong_whatever_the_others_are(seed: int, dtype: torch.dtype) -> None:
    truth = drawn(seed, rows=200)
    target = truth.to(dtype).double()
    target[17] *= 1 + 30 * torch.finfo(dtype).eps
    found = judge(target, truth.to(dtype), truth, dtype, request=3)
    assert found.wrong
    assert found.where == (3, 17)


def test_the_ratio_is_of_distances_with_a_floor() -> None:
    truth, off = torch.ones(1, 4, dtype=torch.float64), 1e-3
    found = judge(truth + 3 * off, truth + off, truth, torch.float32)
    floor = FLOOR * torch.finfo(torch.float32).eps * 2.0
    assert found.ratio == pytest.approx(3 * off * 2 / (off * 2 + floor))
    assert found.ratio > RATIO
    assert found.relative == pytest.approx(3 * off)
    assert total([found, found]).ratio == pytest.approx(math.sqrt(2) * 6 * off / (math.sqrt(2) * (2 * off + floor)))


def test_what_is_not_finite_is_wrong_and_what_is_equal_is_right() -> None:
    truth = drawn(1)
    target = truth.clone()
    target[2, 5] = float("nan")
    assert judge(target, truth, truth, torch.float32).wrong
    assert judge(torch.zeros_like(truth), torch.zeros_like(truth), torch.zeros_like(truth), torch.float32).ratio == 0


def test_measures_of_known_differences() -> None:
    expected = torch.tensor([1.0, 2.0, -4.0], dtype=torch.float64)
    got = expected + torch.tensor([0.0, 2 * 2.0**-7, 0.0], dtype=torch.float64)
    found = measure(got, expected, torch.bfloat16)
    assert found.ulp == 1.0  # bfloat16 has 8 bits: at 2 they are 2 ** -6 apart
    assert found.max_absolute == pytest.approx(2**-6)
    assert found.relative == pytest.approx(2**-6 / math.sqrt(21))
    assert found.cosine < 1


def test_divergence_and_agreement() -> None:
    p, q = torch.tensor([[0.5, 0.5, 0.0]]).log(), torch.tensor([[0.25, 0.5, 0.25]]).log()
    assert divergence(q, p) == pytest.approx(0.5 * math.log(2))
    assert divergence(p, p) == 0
    assert agreement(torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([[1.0, 2.0, 3.0]]), k=2) == 0.5
