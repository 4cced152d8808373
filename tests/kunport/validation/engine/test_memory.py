"""Live bytes are exact: what is allocated here is known to the byte."""

from __future__ import annotations

import subprocess
import sys

import torch
from kunport.validation.engine import memory

KILO = 1 << 18  # float32 elements of a mebibyte


def test_the_peak_is_what_was_held_at_once() -> None:
    def work() -> None:
        for _ in range(3):
            first = torch.ones(KILO)
            second = torch.ones(2 * KILO)
            del first
            third = torch.ones(KILO)
            del second, third

    assert memory.peak_live_bytes(work) == 3 << 20


def test_what_was_there_before_does_not_count_and_its_release_hides_nothing() -> None:
    before = [torch.ones(8 * KILO)]

    def work() -> None:
        before.clear()
        torch.ones(KILO)

    assert memory.peak_live_bytes(work) == 1 << 20


def test_a_second_measurement_starts_from_nothing() -> None:
    kept = []
    assert memory.peak_live_bytes(lambda: kept.append(torch.ones(KILO))) == 1 << 20
    assert memory.peak_live_bytes(lambda: kept.append(torch.ones(2 * KILO))) == 2 << 20


def test_no_work_takes_nothing() -> None:
    assert memory.peak_live_bytes(lambda: None) == 0


def test_the_peak_resident_set_follows_an_allocation_and_is_set_back() -> None:
    # In a process of its own: memory that other tests have freed here could serve the allocation.
    subprocess.run([sys.executable, "-c", _ALLOCATE], check=True)


_ALLOCATE = """
from kunport.validation.engine import memory

memory.reset_peak()
before = memory.peak_resident_bytes()
block = bytearray(b"1") * (64 << 20)
after = memory.peak_resident_bytes()
assert after - before > 60 << 20, (before, after)
del block
memory.reset_peak()
again = memory.peak_resident_bytes()
assert after - again > 60 << 20, (after, again)
"""
