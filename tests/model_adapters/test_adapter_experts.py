"""What a router has decided, through vLLM's layer of experts."""

from __future__ import annotations

import pytest
import torch
from kunport_model_adapters.experts import split_routing


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_and_numbers_are_those_that_went_in(dtype: torch.dtype) -> None:
    weights, choice = torch.rand(5, 3), torch.randint(0, 1 << 20, (5, 3))
    joined = torch.cat((weights, choice.float()), -1).to(dtype)
    found, ids = split_routing(torch.empty(5, 8), joined, topk=3, renormalize=True)
    assert (found.dtype, ids.dtype) == (torch.float32, torch.int32)
    assert torch.equal(found, weights)
    assert torch.equal(ids, choice.int())
    assert found.is_contiguous()
    assert ids.is_contiguous()
