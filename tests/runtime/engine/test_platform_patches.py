"""What the platform adds where vLLM would need compiled code."""

import pytest
import torch
from kunport_runtime.engine.platforms.patches import supply_weak_references


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_a_weak_reference_shows_a_tensor_and_does_not_hold_it(dtype):
    supply_weak_references()
    whole = torch.arange(60).to(dtype).view(5, 12)
    for tensor in (whole, whole[1:, 3:], whole.T):
        holders = torch._C._storage_Use_Count(whole.untyped_storage()._cdata)
        weak = torch.ops._C.weak_ref_tensor(tensor)
        assert (weak.data_ptr(), weak.stride(), weak.dtype) == (tensor.data_ptr(), tensor.stride(), dtype)
        assert torch.equal(weak, tensor)
        assert torch._C._storage_Use_Count(whole.untyped_storage()._cdata) == holders
        tensor.add_(1)
        assert torch.equal(weak, tensor)
