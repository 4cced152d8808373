"""Other people's kernels, where they are installed: vLLM's Triton attention, Liger and FlagGems."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from kunport_runtime.bench.trial import Contender
from kunport_runtime.providers.triton.paged_arguments import PagedArguments


def installed(*makers: Callable[[], Contender]) -> list[Contender]:
    """The peers that can be made and run here; why one cannot is printed."""
    return list(_working(makers))


def _working(makers: tuple[Callable[[], Contender], ...]) -> Iterator[Contender]:
    for make in makers:
        try:
            contender = make()
            contender.launch()
            torch.cuda.synchronize()
            yield contender
        except Exception as problem:
            print(f"  without {make.__name__}: {type(problem).__name__} {str(problem)[:100]!r}", flush=True)


def vllm_attention(a: PagedArguments) -> list[Contender]:
    """The unified attention in Triton of vLLM: in one pass, and for decode with the keys in 16 segments."""
    out = torch.empty_like(a.out)

    def arguments() -> dict[str, Any]:
        return {
            "q": a.query, "k": a.key_cache, "v": a.value_cache, "out": out, "cu_seqlens_q": a.query_start_loc,
            "max_seqlen_q": a.max_query_len, "seqused_k": a.seq_lens, "max_seqlen_k": a.max_seq_len,
            "softmax_scale": a.scale, "causal": True, "window_size": (-1, -1), "block_table": a.block_tables,
            "softcap": 0.0, "q_descale": None, "k_descale": None, "v_descale": None,
        }  # fmt: skip

    def vllm_one_pass() -> Contender:
        from vllm.v1.attention.ops.triton_unified_attention import unified_attention

        return Contender("vLLM", lambda: unified_attention(**arguments()))

    def vllm_segments() -> Contender:
        from vllm.v1.attention.ops.triton_unified_attention import unified_attention

        sizes = (a.query.shape[0], a.query.shape[1], 16)
        segments = {
            "seq_threshold_3D": 1 << 20,
            "num_par_softmax_segments": 16,
            "softmax_segm_output": torch.empty(*sizes, 128, device="cuda"),
            "softmax_segm_max": torch.empty(sizes, device="cuda"),
            "softmax_segm_expsum": torch.empty(sizes, device="cuda"),
        }
        return Contender("vLLM, segments", lambda: unified_attention(**arguments(), **segments))

    return installed(vllm_one_pass, *([vllm_segments] if a.max_query_len == 1 else []))


def of_rows(operator: str, arguments: dict[str, Any]) -> list[Contender]:
    """Liger, FlagGems, torch and torch.compile, for the operators of which they have one."""
    functional = torch.nn.functional
    x: Any = arguments.get("x")
    weight = arguments.get("weight")
    cast = {"before_weight": "llama", "after_weight": "gemma", "none": "none"}.get(arguments.get("cast", ""), "llama")

    def liger_rms_norm() -> Contender:
        from liger_kernel.ops.rms_norm import LigerRMSNormFunction

        return Contender("Liger", lambda: LigerRMSNormFunction.apply(x, weight, 1e-6, 0.0, cast, False))

    def gems_rms_norm() -> Contender:
        import flag_gems

        return Contender("FlagGems", lambda: flag_gems.rms_norm(x, x.shape[1:], weight, 1e-6))

    def torch_rms_norm() -> Contender:
        return Contender("torch", lambda: functional.rms_norm(x, x.shape[1:], weight, 1e-6))

    def compiled_rms_norm() -> Contender:
        compiled = torch.compile(lambda x, weight: functional.rms_norm(x, x.shape[1:], weight, 1e-6), dynamic=False)
        return Contender("torch.compile", lambda: compiled(x, weight))

    def liger_add_rms_norm() -> Contender:
        from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction

        residual = arguments["residual"]
        apply = LigerFusedAddRMSNormFunction.apply
        return Contender("Liger", lambda: apply(x, residual, weight, 1e-6, 0.0, cast, False))

    def gems_add_rms_norm() -> Contender:
        import flag_gems

        mine, residual = x.clone(), arguments["residual"].clone()
        return Contender("FlagGems", lambda: flag_gems.fused_add_rms_norm(mine, residual, x.shape[1:], weight, 1e-6))

    def torch_layer_norm() -> Contender:
        return Contender("torch", lambda: functional.layer_norm(x, x.shape[1:], weight, arguments["bias"], 1e-6))

    def liger_layer_norm() -> Contender:
        from liger_kernel.ops.layer_norm import LigerLayerNormFunction

        return Contender("Liger", lambda: LigerLayerNormFunction.apply(x, weight, arguments["bias"], 1e-6))

    def liger_silu() -> Contender:
        from liger_kernel.ops.swiglu import LigerSiLUMulFunction

        gate, up = (half.contiguous() for half in x.chunk(2, dim=1))
        return Contender("Liger", lambda: LigerSiLUMulFunction.apply(gate, up))

    def gems_silu() -> Contender:
        import flag_gems

        gate, up = x.chunk(2, dim=1)
        return Contender("FlagGems", lambda: flag_gems.silu_and_mul(gate, up))

    def liger_rope() -> Contender:
        from liger_kernel.ops.rope import LigerRopeFunction

        q, k = (arguments[name].clone().unsqueeze(0).transpose(1, 2) for name in ("query", "key"))
        angles = arguments["cos_sin_cache"][arguments["positions"]].unsqueeze(0)
        cos, sin = (torch.cat((half, half), -1).to(q.dtype).contiguous() for half in angles.chunk(2, -1))
        return Contender("Liger", lambda: LigerRopeFunction.apply(q, k, cos, sin))

    def in_place() -> Contender:
        query, key = arguments["query"].clone(), arguments["key"].clone()

        def launch() -> None:
            query.neg_()
            key.neg_()

        return Contender("torch, negated in place", launch)

    makers: dict[str, tuple[Callable[[], Contender], ...]] = {
        "rms_norm": (liger_rms_norm, gems_rms_norm, torch_rms_norm, compiled_rms_norm),
        "fused_add_rms_norm": (liger_add_rms_norm, gems_add_rms_norm),
        "layer_norm": (torch_layer_norm, liger_layer_norm),
        "gated_activation": (liger_silu, gems_silu),
        "rotary_embedding": (liger_rope, in_place),
    }
    return installed(*makers.get(operator, ()))
