"""Sampling through kunport's operator, so that every rank draws the same token.

With tensor parallelism each rank samples for itself from equal logits, and only equal random numbers give equal tokens.
The vendor's generator on the device ignores its seed, so the numbers come from the host: a generator for each request
that has a seed, and one for all others, seeded alike on every rank. One uniform number is drawn for each row of a
step, in the rows' order, which is the same on every rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from vllm.config.model import PROCESSED_LOGPROBS_MODES
from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p_pytorch
from vllm.v1.sample.sampler import Sampler

from kunport_runtime import operators


class HostRandom:
    """Uniform numbers in [0, 1) for the rows of a batch, float32, drawn on the host."""

    def __init__(self, seed: int) -> None:
        self._shared = torch.Generator().manual_seed(seed)
        self._of_request: WeakKeyDictionary[torch.Generator, torch.Generator] = WeakKeyDictionary()

    def rows(self, count: int, generators: Mapping[int, torch.Generator]) -> Tensor:
        """``[count]``: a row in ``generators`` draws from its request's own."""
        numbers = torch.rand(count, generator=self._shared)
        for row, generator in generators.items():
            numbers[row] = torch.rand((), generator=self._on_host(generator))
        return numbers

    def _on_host(self, generator: torch.Generator) -> torch.Generator:
        """A device's generator serves for its seed only."""
        if generator.device.type == "cpu":
            return generator
        if generator not in self._of_request:
            self._of_request[generator] = torch.Generator().manual_seed(generator.initial_seed())
        return self._of_request[generator]


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
        )


def make_sampler(vllm_sampler: Any, vllm_config: Any) -> OperatorSampler:
    """The sampler in the place of the one that vLLM's model runner made."""
    # As vLLM seeds its workers: ranks of one replica alike, replicas apart.
    seed = vllm_config.model_config.seed + vllm_config.parallel_config.data_parallel_index
    return OperatorSampler(vllm_sampler.logprobs_mode, HostRandom(seed))
