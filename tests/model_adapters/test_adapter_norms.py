import pytest
import torch
from kunport_model_adapters.norms import HeadsRMSNorm
from transformers.models.olmo2.modeling_olmo2 import Olmo2RMSNorm
from transformers.models.olmoe.modeling_olmoe import OlmoeRMSNorm
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.distributed import parallel_state


@pytest.fixture(scope="module", autouse=True)
def one_rank(tmp_path_factory):
    """The process groups of vLLM, for this process alone. `test_engine` runs the norm on two ranks."""
    meeting = tmp_path_factory.mktemp("ranks") / "meeting"
    with set_current_vllm_config(VllmConfig()):
        parallel_state.init_distributed_environment(1, 0, f"file://{meeting}", 0, "gloo")
        parallel_state.initialize_model_parallel(1, 1)
        yield
    parallel_state.destroy_model_parallel()
    parallel_state.destroy_distributed_environment()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("theirs", "weight_dtype"), [(Olmo2RMSNorm, torch.float32), (OlmoeRMSNorm, None)])
@torch.no_grad()
def test_both_orders_of_the_cast_are_the_libraries_bit_for_bit(theirs, weight_dtype, dtype):
    reference = theirs(4 * 32, eps=1e-5).to(dtype)
    reference.weight.copy_(torch.randn(128))
    norm = HeadsRMSNorm(4, 32, 1e-5, weight_dtype or dtype)
    norm.weight.weight_loader(norm.weight, reference.weight)
    x = 3 * torch.randn(50, 128, dtype=dtype)
    assert torch.equal(norm(x), reference(x))
