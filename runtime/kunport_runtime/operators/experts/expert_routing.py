"""The experts that each token goes to, and the weights of their outputs.

    scores = softmax(logits) or sigmoid(logits)                in float32, over all experts
    choice = scores + correction_bias                          the bias chooses, and weighs nothing
    choice = -inf outside the ``top_groups`` best groups         of equal size; a group is as good as its best expert
                                                               (``maximum``) or its two best together (``top_two_sum``)
    ids     = the top_k of choice, largest first               of equals the one with the lower id
    weights = scores[ids], divided by their sum (+ 1e-20) if ``renormalize``, times scale

Shazeer and others, 2017, https://arxiv.org/abs/1701.06538; groups and bias: DeepSeek-AI, 2024,
https://arxiv.org/abs/2412.19437.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kunport_runtime.operators.contract import Case, Contract, option, reads, writes
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.limit import Limit
from kunport_runtime.operators.numerics import wide
from kunport_runtime.operators.tolerance import Tolerance


def reference(
    weights: torch.Tensor,
    ids: torch.Tensor,
    logits: torch.Tensor,
    correction_bias: torch.Tensor | None,
    scoring: str,
    renormalize: bool,
    groups: int,
    top_groups: int,
    group_score: str,
    scale: float,
) -> None:
    """The formulas above."""
    scores = wide(logits).softmax(-1) if scoring == "softmax" else wide(logits).sigmoid()
    choice = scores if correction_bias is None else scores + correction_bias
    if groups > 1:
        choice = _best_groups_only(choice, groups, top_groups, group_score)
    chosen = choice.sort(dim=-1, descending=True, stable=True).indices[:, : weights.shape[1]]
    result = scores.gather(-1, chosen)
    if renormalize:
        result = result / (result.sum(-1, keepdim=True) + 1e-20)
    weights.copy_(result * scale)
    ids.copy_(chosen)


def _best_groups_only(choice: torch.Tensor, groups: int, top_groups: int, group_score: str) -> torch.Tensor:
    by_group = choice.view(len(choice), groups, -1)
    quality = by_group.topk(1 if group_score == "maximum" else 2).values.sum(-1)
    best = quality.sort(dim=-1, descending=True, stable=True).indices[:, :top_groups]
    kept = torch.zeros_like(quality, dtype=torch.bool).scatter(1, best, True)
    return by_group.masked_fill(~kept.unsqueeze(-1), -torch.inf).view(choice.shape)


def cases(draw: Draw) -> Iterator[Case]:
    """Both scorings, groups of both kinds, bias, one expert and many, numbers that are no powers of two."""
    forms = (
        ("softmax", True, 1, 1, "maximum", 1.0, False, 5, 8, 2),
        ("softmax", False, 4, 2, "maximum", 16.0, False, 3, 64, 6),
        ("sigmoid", True, 8, 3, "top_two_sum", 2.5, True, 17, 256, 8),
        ("sigmoid", False, 1, 1, "maximum", 1.0, False, 1, 16, 1),
        ("softmax", True, 1, 1, "maximum", 1.0, True, 33, 60, 4),
    )
    for scoring, renormalize, groups, top_groups, score, scale, bias, tokens, experts, top_k in forms:
        # Logits that are whole steps apart in every dtype: their order is no matter of rounding.
        steps = torch.stack([draw.permutation(experts) for _ in range(tokens)])
        yield Case(
            f"{scoring}, {top_k} of {experts} experts in {top_groups} of {groups} groups, {tokens} tokens",
            {
                "weights": draw.poison(tokens, top_k, dtype=torch.float32),
                "ids": draw.poison(tokens, top_k, dtype=torch.int32),
                "logits": (steps / 32 - 4).to(draw.dtype),
                "correction_bias": draw.permutation(experts).float() / (3.3 * experts) if bias else None,
                "scoring": scoring,
                "renormalize": renormalize,
                "groups": groups,
                "top_groups": top_groups,
                "group_score": score,
                "scale": scale,
            },
        )


CONTRACT = Contract(
    name="expert_routing",
    arguments=(
        writes("weights", "tokens, top_k", "of each chosen expert's output", dtypes=("float32",)),
        writes("ids", "tokens, top_k", "of the chosen experts", dtypes=("int32",)),
        reads("logits", "tokens, experts", "of the router"),
        reads("correction_bias", "experts", "added for the choice only", dtypes=("float32",), optional=True),
        option("scoring", str, "of the logits", choices=("softmax", "sigmoid")),
        option("renormalize", bool, "whether the weights of a token sum to one"),
        option("groups", int, "that the experts are in", default=1),
        option("top_groups", int, "of which experts may be chosen", default=1),
        option("group_score", str, "what makes a group good", default="maximum", choices=("maximum", "top_two_sum")),
        option("scale", float, "a factor of all weights", default=1.0),
    ),
    reference=reference,
    cases=cases,
    tolerance={
        dtype: Tolerance(1e-6, 1e-5, "float32 throughout, whatever the logits are in; ids are equal")
        for dtype in ("float32", "float16", "bfloat16")
    },
    dtype_of="logits",
    limits=(
        Limit("top_k", maximum="experts"),
        Limit("experts", multiple_of="groups", why="groups are of equal size"),
        Limit("top_groups", maximum="groups"),
    ),
)
