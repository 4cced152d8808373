"""What a worker will need is known from headers and limits."""

import pytest
import torch
from kunport_runtime.memory.budget import MemoryBudgetError
from kunport_runtime.memory.plan import MemoryPlan, activation_bytes, weight_bytes
from safetensors.torch import save_file


def test_weights_are_counted_from_headers_in_the_dtype_that_is_served(tmp_path):
    save_file({"a": torch.zeros(8, 6), "norm": torch.zeros(6)}, tmp_path / "model-1.safetensors")
    save_file(
        {"ids": torch.zeros(5, dtype=torch.int64), "b": torch.zeros(4, 4, dtype=torch.float16)},
        tmp_path / "model-2.safetensors",
    )
    assert weight_bytes(tmp_path, element=4, ranks=1) == (48 + 6 + 16) * 4 + 5 * 8
    assert weight_bytes(tmp_path, element=2, ranks=2) == (48 + 16) * 2 // 2 + 6 * 2 + 5 * 8
    assert weight_bytes(tmp_path / "nowhere", element=4, ranks=1) == 0


def test_a_file_that_is_no_safetensors_is_left_to_the_loader(tmp_path):
    (tmp_path / "broken.safetensors").write_bytes(b"\xff" * 20)
    assert weight_bytes(tmp_path, element=4, ranks=1) == 0


def test_a_budget_that_cannot_do_is_refused_before_loading():
    plan = MemoryPlan(weights=3 << 30, kv_cache=1 << 30, activations=activation_bytes(2048, 16, 1024, 4096, 32000, 2))
    plan.check(plan.total)
    with pytest.raises(MemoryBudgetError, match=r"weights 3\.00 GiB, KV cache 1\.00 GiB, activations .* MiB"):
        plan.check(plan.total - 1)
