"""The import block: what the written code uses, sorted as ruff sorts it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kunport_codegen.emission.identifiers import identifier

_LAYERS = "vllm.model_executor.layers"
# Name -> the module that it is imported from; "" where the module itself is imported.
_HOMES = {
    "Iterable": "collections.abc",
    "islice": "itertools",
    "math": "",
    "ClassVar": "typing",
    "torch": "",
    "nn": "torch",
    "AdapterError": "kunport_model_adapters.errors",
    "HeadsRMSNorm": "kunport_model_adapters.norms",
    **{
        name: f"kunport_runtime.engine.states.{home}"
        for home, names in (
            ("state", ("State",)),
            ("model", ("StatefulModel",)),
            ("convolution", ("ShortConvolution", "TokenShift")),
            ("scans", ("Mamba1Scan", "Mamba2Scan")),
            ("memories", ("GatedDeltaRule", "LinearAttention", "MatrixLstm")),
            ("recurrences", ("RgLru", "Rwkv")),
        )
        for name in names
    },
    "PretrainedConfig": "transformers",
    "as_written": "kunport_model_adapters.written",
    "TextPositions": "kunport_model_adapters.positions",
    "position_axes": "kunport_model_adapters.positions",
    "alibi_slopes": "kunport_model_adapters.alibi",
    "check_guards": "kunport_model_adapters.guards",
    "ungroup_qkv": "kunport_model_adapters.weights",
    "single_experts": "kunport_model_adapters.weights",
    "split_routing": "kunport_model_adapters.experts",
    "set_weight_attrs": "vllm.model_executor.utils",
    "sharded_weight_loader": "vllm.model_executor.model_loader.weight_utils",
    "divide": "vllm.distributed",
    "support_torch_compile": "vllm.compilation.decorators",
    "VllmConfig": "vllm.config",
    "get_pp_group": "vllm.distributed",
    "get_tensor_model_parallel_world_size": "vllm.distributed",
    "GeluAndMul": f"{_LAYERS}.activation",
    "SiluAndMul": f"{_LAYERS}.activation",
    "Attention": f"{_LAYERS}.attention",
    "FusedMoEFactory": f"{_LAYERS}.fused_moe",
    "GemmaRMSNorm": f"{_LAYERS}.layernorm",
    "LayerNorm": f"{_LAYERS}.layernorm",
    "RMSNorm": f"{_LAYERS}.layernorm",
    "ColumnParallelLinear": f"{_LAYERS}.linear",
    "MergedColumnParallelLinear": f"{_LAYERS}.linear",
    "QKVParallelLinear": f"{_LAYERS}.linear",
    "ReplicatedLinear": f"{_LAYERS}.linear",
    "RowParallelLinear": f"{_LAYERS}.linear",
    "LogitsProcessor": f"{_LAYERS}.logits_processor",
    "get_rope": f"{_LAYERS}.rotary_embedding",
    "ParallelLMHead": f"{_LAYERS}.vocab_parallel_embedding",
    "VocabParallelEmbedding": f"{_LAYERS}.vocab_parallel_embedding",
    "SupportsLoRA": "vllm.model_executor.models.interfaces",
    "SupportsPP": "vllm.model_executor.models.interfaces",
    "AutoWeightsLoader": "vllm.model_executor.models.utils",
    "WeightsMapper": "vllm.model_executor.models.utils",
    "extract_layer_index": "vllm.model_executor.models.utils",
    "make_empty_intermediate_tensors_factory": "vllm.model_executor.models.utils",
    "make_layers": "vllm.model_executor.models.utils",
    "maybe_prefix": "vllm.model_executor.models.utils",
    "IntermediateTensors": "vllm.sequence",
    "re": "",
}
_STANDARD = frozenset(("collections.abc", "itertools", "math", "typing", "re"))


def class_name(text: str) -> str:
    """The name of a class of the adapter's own; one that the adapter imports is another's already."""
    return identifier(f"{text}Module" if text in _HOMES else text)


def import_block(code: str) -> str:
    """The imports that the code needs, in isort's order."""
    words = set(re.findall(r"(?<![\w.\"'])[A-Za-z_]\w*", code))
    used = [name for name in _HOMES if name in words]
    sections = []
    for standard in (True, False):
        plain = sorted(name for name in used if not _HOMES[name] and (name in _STANDARD) is standard)
        homes: dict[str, list[str]] = {}
        for name in used:
            if _HOMES[name] and (_HOMES[name] in _STANDARD) is standard:
                homes.setdefault(_HOMES[name], []).append(name)
        lines = [f"import {name}" for name in plain]
        lines += [f"from {home} import {', '.join(_sorted(names))}" for home, names in sorted(homes.items())]
        sections.append("\n".join(lines))
    return "\n\n".join(section for section in sections if section)


def _sorted(names: Iterable[str]) -> list[str]:
    """Classes, then the rest, each by name: the order within one import."""
    return sorted(names, key=lambda name: (not name[0].isupper(), name))
