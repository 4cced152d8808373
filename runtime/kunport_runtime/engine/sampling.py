"""Sampling through kunport's operator: a function of logits and of random numbers that are equal on every rank."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from vllm.config.model import PROCESSED_LOGPROBS_MODES
from vllm.v1.outputs import SamplerOutput
from vllm.v1.sample.logits_processor.builtin import LogitBiasLogitsProcessor, MinTokensLogitsProcessor
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

    def forward(self, logits: Tensor, sampling_metadata: Any, *arguments: Any, **options: Any) -> SamplerOutput:
        """vLLM's, but without a float32 copy where every row takes its largest logit and nothing else is asked."""
        if not takes_largest(sampling_metadata):
            return super().forward(logits, sampling_metadata, *arguments, **options)
        tokens = self.greedy_sample(logits).to(torch.int32)
        return SamplerOutput(sampled_token_ids=tokens.unsqueeze(-1), logprobs_tensors=None)

    @staticmethod
    def greedy_sample(logits: Tensor) -> Tensor:
        tokens: Tensor = operators.sample(logits=logits, greedy=True, **_greedy(logits.shape[0], logits.device))
        return tokens


def greedy_options(rows: int, device: torch.device) -> dict[str, Tensor]:
    """The operator's options of rows that take the largest logit; read only, and the same at every step."""
    zeros = torch.zeros(rows, device=device)
    top_k = torch.zeros(rows, dtype=torch.int32, device=device)
    return {"temperature": zeros, "top_k": top_k, "top_p": torch.ones(rows, device=device), "uniform": zeros}


_greedy = lru_cache(maxsize=64)(greedy_options)


def takes_largest(metadata: Any) -> bool:
    """Whether the largest logit, as the model gave it, is the token of every row, and nothing else is asked for."""
    holder = metadata.thinking_budget_state_holder
    return (
        metadata.all_greedy
        and metadata.max_num_logprobs is None
        and not metadata.logprob_token_ids
        and metadata.no_penalties
        and metadata.allowed_token_ids_mask is None
        and not metadata.bad_words_token_ids
        and (holder is None or not holder.has_tracked_requests())
        and all(_is_idle(each) for each in metadata.logitsprocs.non_argmax_invariant)
    )


def _is_idle(processor: Any) -> bool:
    """Whether a processor leaves all logits alone; one that is not vLLM's own may not."""
    if isinstance(processor, MinTokensLogitsProcessor):
        return not processor.min_toks
    return isinstance(processor, LogitBiasLogitsProcessor) and not processor.biases


def make_sampler(vllm_sampler: Any, vllm_config: Any) -> OperatorSampler:
    """The sampler in the place of the one that vLLM's model runner made."""
    # As vLLM seeds its workers: ranks of one replica alike, replicas apart.
    seed = vllm_config.model_config.seed + vllm_config.parallel_config.data_parallel_index
    return OperatorSampler(vllm_sampler.logprobs_mode, HostRandom(seed))
