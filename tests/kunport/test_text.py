from __future__ import annotations

import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kunport import text


@given(st.text())
def test_what_is_visible_steers_nothing(string: str) -> None:
    shown = text.visible(string)
    assert not any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in shown)
    if string.isascii() and string.isprintable():
        assert shown == string


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0 B"), (1, "1 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (100 << 10, "100 KiB"),
     (1 << 20, "1.0 MiB"), (1023 << 20, "1023 MiB"), (3 << 40, "3.0 TiB"), (5000 << 40, "5000 TiB"), (None, "–")],
)  # fmt: skip
def test_bytes(value: int | None, shown: str) -> None:
    assert text.number_of_bytes(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (4.77e-6, "4.8e-06"), (math.inf, "inf"), (math.nan, "not a number"), (None, "–")],
)
def test_scientific(value: float | None, shown: str) -> None:
    assert text.scientific(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(0.04, "0.0 s"), (99.94, "99.9 s"), (99.95, "1 min 39 s"), (125.0, "2 min 05 s"), (None, "")]
)
def test_seconds(value: float | None, shown: str) -> None:
    assert text.seconds(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(7, "7"), (722_048, "722 k"), (134_515_008, "135 M"), (1_240_000_000, "1.24 B")]
)
def test_parameters(value: int, shown: str) -> None:
    assert text.parameters(value) == shown
