"""The order of operators after passes have moved some of them."""

import pytest
from kunport_codegen.graph import Location, Ref
from kunport_codegen.lowering.errors import LoweringError
from kunport_codegen.lowering.flow import Op, ordered


def op(result: int, *reads: int) -> Op:
    return Op("add", tuple(map(Ref, reads)), {}, [result], "", Location("model.py", result))


def test_operators_come_after_what_they_read_and_else_stay():
    given = [op(1, 3), op(2), op(3, 2), op(4, 1, 3), op(5)]
    assert [each.results[0] for each in ordered(given)] == [2, 3, 1, 4, 5]


@pytest.mark.parametrize("ring", [[op(1, 2), op(2, 1)], [op(1, 1)], [op(1, 2, 4), op(2, 3), op(3, 1), op(4)]])
def test_operators_that_read_each_other_have_no_order(ring):
    with pytest.raises(LoweringError, match=r"model\.py:\d: add: its module is left and entered again"):
        ordered(ring)
