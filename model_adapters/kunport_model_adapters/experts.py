"""Mixtures of experts whose router is the model's own code."""

from __future__ import annotations

import torch


def split_routing(
    hidden_states: torch.Tensor, gating_output: torch.Tensor, topk: int, renormalize: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """What a router has decided, handed through vLLM's layer of experts in the place of its logits.

    Numbers of experts are exact in float32.

    Args:
        hidden_states: ``[tokens, hidden]``, not used.
        gating_output: ``[tokens, 2 * topk]`` float32: the weights of the chosen experts, then their numbers.
        topk: experts of a token.
        renormalize: not used: the weights are what the router made them.

    Returns:
        Weights ``[tokens, topk]`` float32 and numbers ``[tokens, topk]`` int32.
    """
    weights, choice = gating_output[:, :topk], gating_output[:, topk:]
    return weights.to(torch.float32).contiguous(), choice.round().to(torch.int32)
