"""What is the same on every device: an out-of-tree platform whose operators are kunport's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch
from vllm.platforms.interface import Platform, PlatformEnum

from kunport_runtime.engine.settings import add_arguments

if TYPE_CHECKING:
    from kunport_runtime.devices.device import Device

ATTENTION = "kunport_runtime.engine.attention.backend.PagedAttentionBackend"
COMMUNICATOR = "kunport_runtime.engine.communicator"
SCHEDULERS = "kunport_runtime.engine.exhaustion"
LORA = "kunport_runtime.engine.lora.LoraWeights"
FLOATS = (torch.bfloat16, torch.float16, torch.float32)


class KunportPlatform(Platform):
    """The answers that do not depend on the device; mixed in before vLLM's own platform of a device where it has one.

    ``_enum`` is out-of-tree: vLLM then takes every layer's `forward_oot` and leaves its own kernels aside.
    """

    _enum = PlatformEnum.OOT
    device: ClassVar[Device]
    worker: ClassVar[str]
    # vLLM compiles small functions of its own with this; Inductor is not to be had on Kunlun.
    simple_compile_backend = "eager"

    @property
    def supported_dtypes(self) -> list[torch.dtype]:
        return list(FLOATS)

    @classmethod
    def check_if_supports_dtype(cls, dtype: torch.dtype) -> None:
        if dtype not in FLOATS:
            raise ValueError(f"kunport computes in {', '.join(map(str, FLOATS))}; choose one of them, not {dtype}.")

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        return cls.device.properties(device_id).name

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        return cls.device.properties(device_id).memory

    @classmethod
    def get_current_memory_usage(cls, device: Any = None) -> float:
        """Bytes that torch holds. Reading them changes nothing (no peak is reset)."""
        return float(cls.device.memory(torch.device(device).index or 0 if device is not None else 0).torch)

    @classmethod
    def num_compute_units(cls, device_id: int = 0) -> int:
        return cls.device.properties(device_id).compute_units

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        cls.device.seed(seed)

    @classmethod
    def pre_register_and_update(cls, parser: Any = None) -> None:
        if parser is not None:
            add_arguments(parser)

    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: Any) -> None:
        from vllm.config import CompilationMode

        super().apply_config_platform_defaults(vllm_config)
        # Operators are dispatched and counted in Python at every call: there is no trace for a compiler to see. Said
        # before vLLM decides what follows from it: where it means to compile with Inductor, no layer of ours would run.
        vllm_config.compilation_config.mode = CompilationMode.NONE

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        if vllm_config.parallel_config.worker_cls == "auto":
            vllm_config.parallel_config.worker_cls = cls.worker
        super().check_and_update_config(vllm_config)
        if vllm_config.scheduler_config.scheduler_cls is None:  # after the platform decided whether it is the async one
            kind = "AsyncScheduler" if vllm_config.scheduler_config.async_scheduling else "Scheduler"
            vllm_config.scheduler_config.scheduler_cls = f"{SCHEDULERS}.{kind}"

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        if attn_selector_config.use_mla or attn_selector_config.use_sparse:
            return cls.other_attention(selected_backend, attn_selector_config, num_heads)
        return ATTENTION

    @classmethod
    def other_attention(cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None) -> str:
        """The backend of latent or sparse attention, which kunport has none for yet."""
        raise NotImplementedError("kunport serves neither latent nor sparse attention on this device yet.")

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        return f"{COMMUNICATOR}.{cls.device.name.capitalize()}Communicator"

    @classmethod
    def get_punica_wrapper(cls) -> str:
        return LORA

    @classmethod
    def import_ir_kernels(cls) -> None:
        import kunport_runtime.engine.ir  # noqa: F401

    @classmethod
    def get_default_ir_op_priority(cls, vllm_config: Any) -> Any:
        from vllm.config.kernel import IrOpPriorityConfig

        from kunport_runtime.engine.ir import PROVIDER

        ours = [PROVIDER, "native"]
        return IrOpPriorityConfig.with_default(["native"], rms_norm=ours, fused_add_rms_norm=ours)

    @classmethod
    def opaque_attention_op(cls) -> bool:
        return (
            False  # nothing is traced, and torch's way to an operator costs more than the attention's own on the host
        )

    @classmethod
    def support_hybrid_kv_cache(cls) -> bool:
        return True

    @classmethod
    def support_static_graph_mode(cls) -> bool:
        return cls.device.supports_graphs
