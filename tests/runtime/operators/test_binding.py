import numpy as np
import pytest
import torch
from kunport_runtime.operators.binding import bind
from kunport_runtime.operators.contract import Contract, option, reads, writes
from kunport_runtime.operators.errors import ContractError
from kunport_runtime.operators.limit import Limit
from kunport_runtime.operators.tolerance import rounded

CONTRACT = Contract(
    name="toy",
    arguments=(
        writes("out", "rows, 2 * size", "result", like="x"),
        writes("count", "groups", "one for each group", dtypes=("int32",)),
        reads("x", "rows, size", "rows"),
        reads("starts", "sequences + 1", "starts", dtypes=("int32",)),
        reads("weight", "size", "weights", optional=True, contiguous=True),
        option("epsilon", float, "small"),
        option("groups", int, "many", default=4),
        option("mode", str, "how", default="a", choices=("a", "b")),
        option("flag", bool, "whether", default=False),
    ),
    reference=lambda **_: None,
    cases=lambda _: iter(()),
    tolerance=rounded(1),
    dtype_of="x",
)


def arguments(**changes):
    given = {"x": torch.zeros(3, 5), "starts": torch.zeros(4, dtype=torch.int32), "epsilon": 1e-6, **changes}
    return {name: value for name, value in given.items() if value is not ...}


def test_sizes_defaults_and_outputs():
    call = bind(CONTRACT, arguments(epsilon=np.float64(1)))
    assert call.sizes == {"rows": 3, "size": 5, "sequences": 3, "groups": 4}
    assert call.arguments["mode"] == "a"
    assert call.arguments["weight"] is None
    call.allocate_outputs()
    assert call.arguments["out"].shape == (3, 10)
    assert call.arguments["count"].dtype == torch.int32
    assert call.dtype == "float32"


def test_properties_that_limits_are_on():
    call = bind(CONTRACT, arguments(weight=torch.zeros(5), x=torch.zeros(3, 9)[:, :5]))
    found = [call.value(name) for name in ("size", "mode", "x.dtype", "weight.given", "x.contiguous", "nothing")]
    assert found == [5, "a", "float32", True, False, None]
    assert bind(CONTRACT, arguments()).value("weight.given") is False


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"y": 1}, "no argument y"),
        ({"x": ...}, "x is missing"),
        ({"x": None}, "x is missing"),
        ({"out": None}, "out is missing"),
        ({"epsilon": ...}, "epsilon is missing"),
        ({"epsilon": "1"}, "epsilon is '1', which is no float"),
        ({"groups": 4.0}, "groups is 4.0, which is no int"),
        ({"groups": True}, "groups is True, which is no int"),
        ({"flag": 1}, "flag is 1, which is no bool"),
        ({"mode": "c"}, "mode is 'c', not 'a' or 'b'"),
        ({"x": [1.0]}, "x is a list, no tensor"),
        ({"x": torch.zeros(3)}, r"x has 1 dimensions, not \[rows, size\]"),
        ({"x": torch.zeros(3, 5, dtype=torch.int8)}, "x is int8, not float32 or float16 or bfloat16"),
        ({"x": torch.zeros(5, 3).T}, "the last stride of x is 3, not 1"),
        ({"out": torch.zeros(3, 10).half()}, "out is float16, not float32 as x is"),
        ({"out": torch.zeros(3, 11)}, r"out is \[3, 11\], not \[rows, 2 \* size\] with rows 3, size 5"),
        ({"out": torch.zeros(4, 10)}, r"x is \[3, 5\], not \[rows, size\] with rows 4"),
        ({"starts": torch.zeros(0, dtype=torch.int32)}, r"starts is \[0\], not \[sequences \+ 1\]"),
        ({"weight": torch.zeros(6)}, r"weight is \[6\], not \[size\] with size 5"),
        ({"weight": torch.zeros(10)[::2]}, "weight is not contiguous"),
        ({"x": torch.zeros(3, 5, device="meta")}, "starts is on cpu, the others on meta"),
    ],
)
def test_what_does_not_fit_is_named(changes, fault):
    with pytest.raises(ContractError, match=fault):
        bind(CONTRACT, arguments(**changes))


def test_an_output_of_unknown_size_has_to_be_given():
    contract = Contract(
        name="toy",
        arguments=(writes("out", "rows, other", "result", like="x"), reads("x", "rows", "rows")),
        reference=lambda **_: None,
        cases=lambda _: iter(()),
        tolerance=rounded(1),
        dtype_of="x",
    )
    with pytest.raises(ContractError, match="out is missing, and no other argument"):
        bind(contract, {"x": torch.zeros(3)}).allocate_outputs()


@pytest.mark.parametrize(
    ("limit", "refusal"),
    [
        (Limit("size", one_of=(5, 6)), ""),
        (Limit("size", one_of=(6, 7)), "size is 5, not 6, 7"),
        (Limit("size", minimum=6), "size is 5, below 6"),
        (Limit("size", maximum="rows"), "size is 5, above rows"),
        (Limit("size", multiple_of=2, why="pairs"), r"size is 5, no multiple of 2 \(pairs\)"),
        (Limit("size", multiple_of=5, minimum=5, maximum=5), ""),
        (Limit("mode", one_of=("b",)), "mode is a, not b"),
        (Limit("x.dtype", one_of=("bfloat16",)), "x.dtype is float32, not bfloat16"),
        (Limit("weight.given", one_of=(False,)), ""),
        (Limit("unknown", one_of=(1,)), ""),
    ],
)
def test_limits(limit, refusal):
    import re

    assert re.fullmatch(refusal, limit.refusal(bind(CONTRACT, arguments())))
    assert limit.of in str(limit)
    assert limit.why in str(limit)
