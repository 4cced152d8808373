"""What the platform adds where vLLM would need compiled code, and what it says before vLLM decides for itself."""

import json
import os
import subprocess
import sys

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


@pytest.mark.engine
def test_layers_are_ours_where_a_compiler_is_asked_for():
    code = (
        "import json; from vllm.config import CompilationConfig, VllmConfig; "
        "c = VllmConfig(compilation_config=CompilationConfig(backend='inductor')).compilation_config; "
        "print(json.dumps([c.mode.name, c.custom_ops]))"
    )
    variables = os.environ | {"KUNPORT_DEVICE": "cpu", "VLLM_LOGGING_LEVEL": "ERROR"}
    ran = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    mode, custom_ops = json.loads(ran.stdout.splitlines()[-1])
    assert (mode, custom_ops) == ("NONE", ["all"])
