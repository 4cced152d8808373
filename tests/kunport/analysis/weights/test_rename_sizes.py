"""The shapes that renames make are those that torch makes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from kunport.analysis.weights.sizes import MisfitError, UnknownOperationError, combined

SIZES = st.integers(1, 3).map(lambda size: 2 * size)


def test_stacked_experts_joined_to_one_tensor():
    gate = up = [(12, 8)] * 4
    assert combined(["stack", "concatenate:1"], [gate, up]) == (4, 24, 8)


@given(st.lists(SIZES, min_size=2, max_size=3), st.integers(1, 4), st.integers(-2, 1), st.integers(0, 1))
def test_as_torch_does(shape, count, dim, part):
    tensors = [torch.zeros(shape) for _ in range(count)]
    shapes = [tuple(shape)] * count
    assert combined(["stack"], [shapes]) == torch.stack(tensors).shape
    assert combined([f"concatenate:{dim}"], [shapes]) == torch.cat(tensors, dim).shape
    assert combined([f"chunk:{dim},{part},2"], [shapes[:1]]) == tensors[0].chunk(2, dim)[part].shape
    assert combined([f"transpose:0,{dim}"], [shapes[:1]]) == tensors[0].transpose(0, dim).shape
    assert combined([f"deinterleave:{dim}"], [shapes[:1]]) == tensors[0].shape


@pytest.mark.parametrize(
    ("operations", "groups", "reason"),
    [
        (["stack"], [[(2, 3), (3, 2)]], "differ in shape"),
        (["stack"], [[(2, 3), (2, 3)], [(2, 3), (2, 3)]], "2 tensors are left"),
        (["concatenate:0"], [[(2, 3)], [(2, 4)]], "differ in another"),
        (["concatenate:1"], [[(2,)], [(2,)]], "no dimension 1"),
        (["concatenate:0"], [[(2, 3)], [(2,)]], "number of dimensions"),
        (["concatenate:0"], [[]], "number of dimensions"),
        (["chunk:0,0,2"], [[(3, 2)]], "equal parts"),
        (["deinterleave:0"], [[(3, 2)]], "halves"),
        (["stack"], [[]], "0 tensors are left"),
        ([], [[(2,)], [(2,)]], "2 tensors are left"),
    ],
)
def test_what_does_not_go_together_is_said(operations, groups, reason):
    with pytest.raises(MisfitError, match=reason):
        combined(operations, groups)


def test_an_operation_without_a_name_here():
    with pytest.raises(UnknownOperationError, match="PermuteForRope"):
        combined(["unknown:PermuteForRope"], [[(2, 2)]])
