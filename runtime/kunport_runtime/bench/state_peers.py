"""Prompts that leave states by others' chunked kernels, which vLLM carries, and by our own token by token."""

from typing import Any
from unittest import mock

import torch

from kunport_runtime.bench.peers import installed
from kunport_runtime.bench.trial import Contender, Launch
from kunport_runtime.providers.triton import chunked_state

_CHUNK = 256  # tokens, of vLLM's scan for Mamba 2


def of_prompts(operator: str, launch: Launch, a: dict[str, Any]) -> list[Contender]:
    """Peers of a chunked operator on a batch of prompts of one length, a multiple of 256.

    Those of vLLM make states anew, in the order of the sequences, where ours go to their slots.
    """

    def token_by_token() -> Contender:
        def one_after_the_other() -> None:
            with mock.patch.object(chunked_state, "takes", return_value=False):
                launch()

        return Contender("token by token", one_after_the_other)

    def vllm_mamba2() -> Contender:
        from vllm.model_executor.layers.mamba.ops.ssd_combined import mamba_chunk_scan_combined_varlen

        tokens, sequences = len(a["x"]), len(a["state_slots"])
        each = tokens // sequences // _CHUNK
        whole = {
            "cu_seqlens": a["query_start_loc"],
            "cu_chunk_seqlens": torch.arange(0, tokens + 1, _CHUNK, device="cuda", dtype=torch.int32),
            "last_chunk_indices": torch.arange(1, sequences + 1, device="cuda", dtype=torch.int32) * each - 1,
            "seq_idx": torch.arange(sequences, device="cuda", dtype=torch.int32).repeat_interleave(each),
            "initial_states": a["state"][a["state_slots"].long()],
            "out": torch.empty_like(a["out"]),
        }
        return Contender(
            "vLLM's Mamba 2",
            lambda: mamba_chunk_scan_combined_varlen(
                a["x"], a["dt"], a["a"], a["b"], a["c"], _CHUNK, D=a["d"], dt_bias=a["dt_bias"], dt_softplus=True,
                state_dtype=a["state"].dtype, **whole,
            ),
        )  # fmt: skip

    def fla_gated_delta() -> Contender:
        from vllm.third_party.flash_linear_attention.ops.chunk import chunk_gated_delta_rule

        query, key, value, beta = (a[name].unsqueeze(0) for name in ("query", "key", "value", "beta"))
        state = a["state"][a["state_slots"].long()].transpose(2, 3).contiguous().float()
        decay, starts = a["decay"].squeeze(-1).unsqueeze(0), a["query_start_loc"].long()
        return Contender(
            "flash-linear-attention",
            lambda: chunk_gated_delta_rule(
                query, key, value, decay, beta, a["scale"], state, True, starts, use_qk_l2norm_in_kernel=True
            ),
        )

    others = {"mamba2_scan": (vllm_mamba2,), "gated_delta_rule": (fla_gated_delta,)}
    return installed(token_by_token, *others.get(operator, ()))
