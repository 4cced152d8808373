"""Other people's products, experts and samplers: torch's libraries, and vLLM's Triton kernel where it is installed."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch

from kunport_runtime.bench.peers import installed
from kunport_runtime.bench.rounds import copy_of
from kunport_runtime.bench.trial import Contender, relative_error
from kunport_runtime.operators.registry import registry


def of_products(operator: str, a: dict[str, Any], work: int) -> list[Contender]:
    """Peers of an operator on its arguments, and for what bytes decide a copy of as many."""

    def cublas_bfloat16() -> Contender:
        x, weight = (torch.randn(a[name].shape, device="cuda").to(torch.bfloat16) for name in ("x", "weight"))
        out = torch.empty_like(a["out"])
        return Contender("cuBLAS", lambda: torch.matmul(x, weight.T, out=out))

    def scaled_mm_rows() -> Contender:
        """A scale for each row and output."""
        if a["in_group"] != a["x"].shape[1]:
            raise ValueError("its scales are of rows")
        scale = a["weight_scale"].T
        return Contender(
            "torch._scaled_mm",
            lambda: torch._scaled_mm(a["x"], a["weight"].T, a["x_scale"], scale, out_dtype=torch.bfloat16),
        )

    def scaled_mm_one() -> Contender:
        """One scale for a matrix: less work than ours."""
        one = torch.ones((), device="cuda")
        return Contender(
            "torch._scaled_mm, one scale",
            lambda: torch._scaled_mm(a["x"], a["weight"].T, one, one, out_dtype=torch.bfloat16, use_fast_accum=True),
        )

    def int_mm() -> Contender:
        return Contender("torch._int_mm, no scales", lambda: torch._int_mm(a["x"], a["weight"].T))

    def reference() -> Contender:
        contract = registry.contract(operator)
        arguments = contract.defaults | a | {"out": torch.empty_like(a["out"])}
        return Contender("torch", lambda: contract.reference(**arguments))

    def embedding() -> Contender:
        return Contender("torch's embedding", lambda: torch.nn.functional.embedding(a["ids"], a["table"]))

    def torch_loop() -> Contender:
        return _torch_loop(a)

    def torch_grouped() -> Contender:
        return _torch_grouped(a)

    def vllm_experts() -> Contender:
        return _vllm_experts(a)

    makers: dict[str, tuple[Callable[[], Contender], ...]] = {
        "linear": (cublas_bfloat16,),
        "fp8_matmul": (cublas_bfloat16, scaled_mm_rows, scaled_mm_one),
        "int8_matmul": (cublas_bfloat16, int_mm),
        "fused_experts": (torch_loop, torch_grouped, vllm_experts),
        "sample": (reference,),
        "embed_tokens": (reference, embedding),
    }
    copies = [copy_of(work)] if operator in ("sample", "embed_tokens") else []
    return copies + installed(*makers[operator])


def _sorted_choices(a: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """The choices sorted by expert, and where each expert's end, int32."""
    ordered, order = a["ids"].reshape(-1).sort(stable=True)
    ends = torch.arange(1, len(a["down_weight"]) + 1, dtype=ordered.dtype, device=ordered.device)
    return order, torch.searchsorted(ordered, ends, out_int32=True)


def _activated(gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up.chunk(2, -1)
    return torch.nn.functional.silu(gate).mul_(up)


def _torch_loop(a: dict[str, Any]) -> Contender:
    """One expert after the other, as Transformers does it; the host knows where each begins."""
    order, ends = _sorted_choices(a)
    bounds = [0, *ends.tolist()]
    token, factor = order // a["ids"].shape[1], a["weights"].reshape(-1)[order].unsqueeze(1).to(torch.bfloat16)

    def launch() -> torch.Tensor:
        out = torch.zeros_like(a["x"])
        for expert, (start, end) in enumerate(pairwise(bounds)):
            rows = token[start:end]
            hidden = _activated(a["x"][rows] @ a["gate_up_weight"][expert].T)
            out.index_add_(0, rows, hidden @ a["down_weight"][expert].T * factor[start:end])
        return out

    return Contender("torch, a loop", launch)


def _torch_grouped(a: dict[str, Any]) -> Contender:
    top_k = a["ids"].shape[1]

    def launch() -> torch.Tensor:
        order, ends = _sorted_choices(a)
        token = order // top_k
        hidden = _activated(torch._grouped_mm(a["x"][token], a["gate_up_weight"].transpose(1, 2), offs=ends))
        result = torch._grouped_mm(hidden, a["down_weight"].transpose(1, 2), offs=ends)
        factor = a["weights"].reshape(-1)[order].unsqueeze(1).to(torch.bfloat16)
        return torch.zeros_like(a["x"]).index_add_(0, token, result * factor)

    return Contender("torch._grouped_mm", launch)


def _vllm_experts(a: dict[str, Any]) -> Contender:
    """The Triton kernel of vLLM, twice, with its own tuning.

    What vLLM has in compiled code only is ours or torch's: the order is made before, which is not timed, the
    activation is our kernel's.
    """
    import triton.language as tl
    from vllm.model_executor.layers.fused_moe import fused_moe

    x, up, down = a["x"], a["gate_up_weight"], a["down_weight"]
    tokens, top_k = a["ids"].shape
    config = fused_moe.try_get_optimal_moe_config(up.shape, down.shape, top_k, None, tokens)
    order, ends = _sorted_choices(a)
    block, bounds = config["BLOCK_SIZE_M"], [0, *ends.tolist()]
    padded, owners = [], []
    for expert, (start, end) in enumerate(pairwise(bounds)):
        blocks = -(-(end - start) // block)
        padded.append(order[start:end])
        padded.append(order.new_full((blocks * block - (end - start),), tokens * top_k))
        owners += [expert] * blocks
    rows = torch.cat(padded).to(torch.int32)
    experts = torch.tensor(owners, dtype=torch.int32, device=x.device)
    count = torch.tensor([len(rows)], dtype=torch.int32, device=x.device)
    gate_up = x.new_empty(tokens, top_k, up.shape[1])
    hidden = x.new_empty(tokens * top_k, down.shape[2])
    result = x.new_empty(tokens, top_k, down.shape[1])
    out = torch.empty_like(x)
    activation = registry.implementations("gated_activation")["triton"].load()
    options = {"activation": "silu", "packing": "halves", "alpha": 1.0, "limit": 0.0, "up_offset": 0.0}
    kinds = dict.fromkeys(("use_fp8_w8a8", "use_int8_w8a8", "use_int8_w8a16", "use_int4_w4a16"), False)

    def launch() -> torch.Tensor:
        common = (a["weights"], rows, experts, count)
        more = {**kinds, "config": config, "compute_type": tl.bfloat16, "per_channel_quant": False}
        invoke = fused_moe.invoke_fused_moe_triton_kernel
        invoke(x, up, gate_up, None, None, *common, mul_routed_weight=False, top_k=top_k, **more)
        activation(out=hidden, x=gate_up.view(-1, up.shape[1]), **options)
        invoke(hidden, down, result, None, None, *common, mul_routed_weight=True, top_k=1, **more)
        return torch.sum(result, 1, out=out)

    expected = _torch_grouped(a).launch()
    assert isinstance(expected, torch.Tensor)
    if not relative_error(launch(), expected) < 0.02:
        raise ValueError("vLLM's kernel was called wrongly: its results are others")
    return Contender(f"vLLM's Triton kernel {block} x {config['BLOCK_SIZE_N']} x {config['BLOCK_SIZE_K']}", launch)
