"""Sampling through kunport's operator: a function of logits and of random numbers that are equal on every rank."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from vllm.config.model import PROCESSED_LOGPROBS_MODES
from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p_pytorch
from vllm.v1.sample.sampler import Sampler

from kunport_runtime import operators
from kunport_runtime.engine.randomness import HostRandom


class TopKTopPSampler(nn.Module):
    """In the place of vLLM's: top-k, top-p and the draw, in one operator."""

    def __init__(self, logprobs_mode: str, random: HostRandom) -> None:
        super().__init__()
        self.logprobs_mode = logprobs_mode
        self.random = random

    def forward(
        self, logits: Tensor, generators: dict[int, torch.Generator], k: Tensor | None, p: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Tokens ``[rows]`` int64 of ``logits`` ``[rows, vocabulary]`` (divided by their temperatures already), and
        the logits or log-probabilities after top-k and top-p where vLLM was asked for these.
        """
        count = logits.shape[0]
        uniform = self.random.rows(count, generators).to(logits.device, non_blocking=True)
        tokens = operators.sample(
            logits=logits,
            temperature=torch.ones(count, device=logits.device),
            top_k=torch.zeros(count, dtype=torch.int32, device=logits.device) if k is None else k.to(torch.int32),
            top_p=torch.ones(count, device=logits.device) if p is None else p.to(torch.float32),
            uniform=uniform,
        )
        if self.logprobs_mode not in PROCESSED_LOGPROBS_MODES:
            return tokens, None
        kept = apply_top_k_top_p_pytorch(logits.clone(), k, p)
        if self.logprobs_mode == "processed_logprobs":
            kept = kept.log_softmax(dim=-1, dtype=torch.float32)
        return tokens, kept


class OperatorSampler(Sampler):
    """vLLM's sampler with kunport's operator for the choice of a token."""

    def __init__(self, logprobs_mode: str, random: HostRandom) -> None:
        super().__init__(logprobs_mode=logprobs_mode)
        self.topk_topp_sampler = TopKTopPSampler(logprobs_mode, random)

    @staticmethod
    def greedy_sample(logits: Tensor) -> Tensor:
        count = logits.shape[0]
        zeros = torch.zeros(count, device=logits.device)
        return operators.sample(
            logits=logits,
            temperature=zeros,
            top_k=torch.zeros(count, dtype=torch.int32, device=logits.device),
            top_p=torch.ones(count, device=logits.device),
            uniform=zeros,
            greedy=True,
        )


def make_sampler(vllm_sampler: Any, vllm_config: Any) -> OperatorSampler:
    """The sampler in the place of the one that vLLM's model runner made."""
    # As vLLM seeds its workers: ranks of one replica alike, replicas apart.
    seed = vllm_config.model_config.seed + vllm_config.parallel_config.data_parallel_index
    return OperatorSampler(vllm_sampler.logprobs_mode, HostRandom(seed))
