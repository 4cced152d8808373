"""Experts that are not gated, ``act(x @ up.T) @ down.T``: two grouped products with the activation between them."""

from __future__ import annotations

import torch
from torch import Tensor

from kunport_runtime import operators
from kunport_runtime.operators.numerics import activate, wide


def plain_experts(x: Tensor, up: Tensor, down: Tensor, weights: Tensor, ids: Tensor, activation: str) -> Tensor:
    """The outputs of each token's experts, weighted and summed in float32.

    Args:
        x: ``[tokens, hidden]``.
        up: ``[experts, size, hidden]``.
        down: ``[experts, hidden, size]``.
        weights: ``[tokens, top_k]`` float32.
        ids: ``[tokens, top_k]`` int32; -1 is an expert of another rank and adds nothing.
        activation: as `gated_activation` names it.

    Returns:
        ``[tokens, hidden]`` in the dtype of ``x``.
    """
    experts, (tokens, top_k) = len(up), ids.shape
    choices = ids.masked_fill(ids < 0, experts).reshape(-1)  # those of other ranks lie last, as rows of nobody
    ordered, order = choices.sort(stable=True)
    numbers = torch.arange(experts + 1, dtype=ordered.dtype, device=ordered.device)
    starts = torch.searchsorted(ordered, numbers, out_int32=True)
    hidden = operators.grouped_matmul(x=x[order // top_k], weight=up, group_starts=starts)
    hidden = activate(wide(hidden), activation, 1.0).to(x.dtype)
    outputs = operators.grouped_matmul(x=hidden, weight=down, group_starts=starts)
    outputs = wide(outputs).masked_fill((ordered == experts).unsqueeze(-1), 0.0)
    weighted = torch.empty_like(outputs)
    weighted[order] = outputs * weights.reshape(-1)[order].unsqueeze(-1)
    return weighted.view(tokens, top_k, -1).sum(1).to(x.dtype)
