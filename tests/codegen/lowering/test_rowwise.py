"""Chains of row-wise operators become kernels that compute the same, and nothing else does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from kunport_codegen.graph import DType, Location, Ref
from kunport_codegen.lowering.flow import Flow, Layout, Op
from kunport_codegen.lowering.members import Member
from kunport_codegen.lowering.rowwise import Kernel, fuse_rows
from kunport_codegen.lowering.structure import Body

HERE = Location("model.py", 1)
FULL, ROW = Layout(True, (8,)), Layout(True, (1,))
GIVEN = (0, 1)  # two tensors that a body is given
BINARY, UNARY = ("add", "sub", "mul", "maximum"), ("neg", "tanh", "sigmoid", "square", "relu")


def op(name: str, result: int, *args: Any, **kwargs: Any) -> Op:
    return Op(name, tuple(Ref(each) if isinstance(each, int) else each for each in args), kwargs, [result], "", HERE)


def fused(
    steps: list[Op], outputs: list[int], layouts: dict[int, Layout] | None = None, dtypes: dict[int, str] | None = None
) -> list[Op]:
    """The steps of a body after the pass; values are ``[tokens, 8]`` of the model's dtype unless told otherwise."""
    values = {value for step in steps for value in (*step.inputs(), *step.results)}
    flow = Flow(SimpleNamespace(), [], outputs[0])  # type: ignore[arg-type]
    flow.layouts = dict.fromkeys(values, FULL) | (layouts or {})
    flow.dtypes = {value: DType((dtypes or {}).get(value, "model")) for value in values}
    body = Body("m", "TwoPartMLP", HERE, list(GIVEN), outputs, steps)
    fuse_rows(flow, body)
    return body.steps


def kernels(steps: list[Op]) -> list[Kernel]:
    return [step.fact for step in steps if step.name == "kernel"]


def evaluate(steps: list[Op], values: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
    for step in steps:
        if step.name == "kernel":
            assert all(arg.id in values for arg in step.args if isinstance(arg, Ref)), "all it reads is there"
            values = evaluate(list(step.fact.steps), values)
            continue
        args = [values[arg.id] if isinstance(arg, Ref) else arg for arg in step.args]
        function = getattr(torch, step.name, None) or torch.neg
        values = {**values, step.results[0]: function(*args)}
    return values


@st.composite
def flows(draw: st.DrawFn) -> tuple[list[Op], list[int]]:
    """Operators in order, some of which no kernel takes, and some values that leave the body."""
    steps = []
    for result in range(2, draw(st.integers(3, 12))):
        name = draw(st.sampled_from((*BINARY, *UNARY, "cumsum")))
        sources = [draw(st.integers(0, result - 1)) for _ in range(2 if name in BINARY else 1)]
        steps.append(op(name, result, *sources, *([torch.tensor(1)] if name == "cumsum" else [])))
    last = steps[-1].results[0]
    return steps, [last, *draw(st.lists(st.integers(2, last), max_size=2))]


@given(flows())
def test_the_same_is_computed_in_an_order_that_has_all_it_reads(drawn: tuple[list[Op], list[int]]) -> None:
    steps, outputs = drawn
    given_values = {value: torch.linspace(-1, 2, 24).reshape(3, 8) * (value + 1) for value in GIVEN}
    for step in steps:
        if step.name == "cumsum":
            step.args = (step.args[0], 1)
    wanted = evaluate(steps, given_values)
    found = fused(list(steps), outputs)
    got = evaluate(found, given_values)
    assert all(torch.equal(got[value], wanted[value]) for value in outputs)
    assert all(len(kernel.steps) > 1 and "cumsum" not in {s.name for s in kernel.steps} for kernel in kernels(found))


def test_a_chain_is_one_kernel_and_is_named_after_its_class() -> None:
    (step,) = fused([op("square", 2, 0), op("mul", 3, 2, 1), op("add", 4, 3, 0)], [4])
    assert step.fact.name == "two_part_mlp_rows"
    assert [(operand.value, operand.kind) for operand in step.fact.operands] == [(Ref(0), "full"), (Ref(1), "full")]
    assert step.results == [4]


def test_one_operator_alone_and_what_others_read_stay() -> None:
    assert not kernels(fused([op("tanh", 2, 0)], [2]))
    assert not kernels(fused([op("to", 2, 0, DType("model")), op("tanh", 3, 2)], [3]))
    (kernel,) = kernels(fused([op("neg", 2, 0), op("neg", 3, 2), op("tanh", 4, 3)], [4, 2]))
    assert [step.name for step in kernel.steps] == ["neg", "tanh"]


def reduced(name: str = "mean", layout: Layout = ROW, dim: Any = -1, keepdim: bool = True) -> list[Op]:
    steps = [op("square", 2, 0), op(name, 3, 2, dim=dim, keepdim=keepdim), op("mul", 4, 0, 3)]
    return fused(steps, [4], {3: layout})


def test_a_sum_over_the_row_is_part_of_it_and_any_other_is_not() -> None:
    for dim in (-1, [-1], 1):
        assert [len(kernel.steps) for kernel in kernels(reduced(dim=dim))] == [3]
    assert kernels(reduced())[0].reduces
    for other in (reduced(dim=0), reduced(keepdim=False, layout=Layout(True, ())), reduced(name="prod")):
        assert not kernels(other)


def test_parameters_and_factors_are_operands_of_other_kinds() -> None:
    steps = [op("mul", 3, 0, 1), op("add", 4, 3, 2)]
    (kernel,) = kernels(fused(list(steps), [4], {1: Layout(False, (8,)), 2: ROW}))
    assert [operand.kind for operand in kernel.operands] == ["full", "column", "row"]
    wrong = ({1: Layout(False, (4, 8))}, {1: Layout(True, (4,))}, {2: Layout(False, ())})
    assert not any(kernels(fused(list(steps), [4], layouts)) for layouts in wrong)


@pytest.mark.parametrize(
    "step",
    [
        op("pow", 2, 0, 2.5),
        op("pow", 2, 3.0, 0),
        op("gelu", 2, 0, approximate="none of these"),
        op("add", 2, 0, 1, alpha=2),
        op("clamp", 2, 0, Ref(1), None),
        op("eq", 2, 0, 1),
    ],
    ids=lambda step: step.name,
)
def test_what_is_not_known_to_be_row_wise_stays_torch(step: Op) -> None:
    found = fused([step, op("neg", 3, 2), op("tanh", 4, 3)], [4])
    known = step.name == "clamp"  # a bound may be a tensor of the rows' shape
    assert [len(kernel.steps) for kernel in kernels(found)] == [3 if known else 2]


def test_other_dtypes_and_a_dtype_that_nothing_says_stay_torch() -> None:
    steps = [op("neg", 2, 0), op("tanh", 3, 2)]
    assert kernels(fused(list(steps), [3], dtypes={0: "float32", 2: "float32", 3: "float32"}))
    assert not kernels(fused(list(steps), [3], dtypes={0: "int64"}))
    assert not kernels(fused(list(steps), [3], dtypes={0: "float32"}))


def test_nothing_waits_until_what_it_reads_is_written_over() -> None:
    rotation = Member("rope", "get_rope", (), {}, HERE)
    writes = Op("call", (Ref(0), Ref(1)), {}, [5, 6], "m", HERE, rotation)
    steps = [op("neg", 2, 0), writes, op("mul", 3, 2, 5), op("tanh", 4, 3)]
    (kernel,) = kernels(fused(steps, [4, 6]))
    assert [step.name for step in kernel.steps] == ["mul", "tanh"]
