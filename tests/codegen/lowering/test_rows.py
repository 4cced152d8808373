"""How rows of a fused weight are grouped."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from kunport_codegen.lowering.rows import Grouping, grouping


@given(st.integers(1, 6), st.permutations([0, 1, 2]), st.tuples(*[st.integers(1, 5)] * 3))
def test_any_interleaving_of_groups_is_found(groups: int, order: list[int], sizes: tuple[int, int, int]) -> None:
    rows = np.arange(groups * sum(sizes)).reshape(groups, -1)
    pieces = np.split(rows, np.cumsum(sizes)[:-1], axis=1)
    parts: list[np.ndarray] = [np.empty(0)] * 3
    for place, index in enumerate(order):
        parts[index] = pieces[place]
    found = grouping(parts)
    assert found is not None
    rebuilt = rows.reshape(found.groups, -1)
    again = np.split(rebuilt, np.cumsum(found.sizes)[:-1], axis=1)
    for place, index in enumerate(found.order):
        assert again[place].reshape(-1).tolist() == parts[index].reshape(-1).tolist()


def test_parts_in_order_need_nothing() -> None:
    assert grouping([np.arange(4), np.arange(4, 6), np.arange(6, 8)]) == Grouping(1, (4, 2, 2), (0, 1, 2))


def test_parts_that_overlap_or_leave_rows_out_are_no_grouping() -> None:
    assert grouping([np.arange(4), np.arange(2, 6)]) is None
    assert grouping([np.array([0, 2, 3, 1]), np.arange(4, 8)]) is None
