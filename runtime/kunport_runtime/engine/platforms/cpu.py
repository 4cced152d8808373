"""The platform on the CPU: vLLM's own for everything about the machine, kunport's for everything that computes."""

from __future__ import annotations

from typing import Any

from vllm.platforms import cpu as vllm_cpu

from kunport_runtime.devices.cpu import CpuDevice
from kunport_runtime.engine.platforms.common import KunportPlatform
from kunport_runtime.engine.platforms.patches import nothing_cached_without_accelerator
from kunport_runtime.engine.states.declared import is_stateful
from kunport_runtime.errors import KunportRuntimeError

nothing_cached_without_accelerator()


class CpuPlatform(KunportPlatform, vllm_cpu.CpuPlatform):
    """vLLM asks ``is_cpu()`` in places, and the answer is no: the layers of vLLM's CPU build are not ours to run.

    docs/platform.md lists those places, and what is done about each.
    """

    device = CpuDevice()
    device_name = device.torch_type
    device_type = device.torch_type
    dist_backend = device.communication_backend
    device_control_env_var = device.visible_devices_variable
    ray_device_key = device.ray_resource
    worker = "kunport_runtime.engine.workers.cpu.CpuWorker"

    def is_sleep_mode_available(self) -> bool:
        return True

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        model = vllm_config.model_config
        if model is not None and model.has_inner_state and not is_stateful(model):
            # vLLM's layers with a state ask `is_cpu()` and would take Triton kernels, which a CPU has not.
            raise KunportRuntimeError(
                f"vLLM's own {model.architecture} keeps a recurrent state, which kunport does not serve on the CPU.",
                "Serve an adapter of the model (kunport port), or run vLLM without kunport: unset KUNPORT_DEVICE.",
            )
        super().check_and_update_config(vllm_config)

    @classmethod
    def other_attention(cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None) -> str:
        return vllm_cpu.CpuPlatform.get_attn_backend_cls(selected_backend, attn_selector_config, num_heads)
