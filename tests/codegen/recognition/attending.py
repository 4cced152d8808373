"""Eager attention, in the spellings that models use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graph_builder import BATCH, FLOAT32, MODEL, SEQUENCE, GraphBuilder, Tensor
from kunport_codegen.expression import field


@dataclass
class Spelling:
    """How an attention is written down; each field is one choice."""

    heads: int = 4
    groups: int = 1
    head_dim: int = 4
    value_dim: int = 4
    scale: str = "scores"
    softcap: bool = False
    mask: str | None = "causal"
    mask_first: bool = False
    sinks: bool = False
    without_maximum: bool = False
    repeat: str = "expand"
    upcast: str = "softmax"
    output: str = "transpose"


SCALE, SOFTCAP, WINDOW = field("scale", 0.3), field("softcap", 2.0), field("sliding_window", 2)
CONFIG = {"scale": 0.3, "softcap": 2.0, "sliding_window": 2}
WINDOWS: dict[str, Any] = {"causal": None, "bidirectional": None, "sliding": WINDOW, "chunked": 3}


def attention(build: GraphBuilder, spelling: Spelling) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Query, key, value and the combined heads."""
    kv_heads = spelling.heads // spelling.groups
    query = build.parameter("q", BATCH, spelling.heads, SEQUENCE, spelling.head_dim)
    key = build.parameter("k", BATCH, kv_heads, SEQUENCE, spelling.head_dim)
    value = build.parameter("v", BATCH, kv_heads, SEQUENCE, spelling.value_dim)
    if spelling.mask is not None:
        mask = build.mask(spelling.mask, WINDOWS[spelling.mask])[:, :, :, :SEQUENCE]
    scaled_query = query * SCALE if spelling.scale == "query" else query
    scaled_key = SCALE * key if spelling.scale == "key" else key
    scores = scaled_query @ repeat(scaled_key, spelling.groups, spelling.repeat).transpose(2, 3)
    if spelling.mask_first and spelling.mask is not None:
        scores = scores + mask
    if spelling.scale == "scores":
        scores = scores * SCALE
    elif spelling.scale == "division":
        scores = scores / 3.0
    if spelling.softcap:
        scores = (scores / SOFTCAP).tanh() * SOFTCAP
    if spelling.mask is not None and not spelling.mask_first:
        scores = scores + mask
    if spelling.sinks:
        sinks = build.parameter("sinks", spelling.heads).reshape((1, -1, 1, 1)).expand((BATCH, -1, SEQUENCE, -1))
        scores = build.cat(scores, sinks)
    if spelling.without_maximum:
        scores = scores - scores.max(dim=-1, keepdim=True).item(0)
    weights = probabilities(scores, spelling.upcast)
    if spelling.sinks:
        weights = weights[..., :-1]
    combined = weights.to(MODEL) @ repeat(value, spelling.groups, spelling.repeat)
    if spelling.output == "transpose":
        combined = combined.transpose(1, 2)
    elif spelling.output == "permute":
        combined = combined.permute((0, 2, 1, 3))
    return query, key, value, combined


def repeat(x: Tensor, groups: int, how: str) -> Tensor:
    """Each key-value head for each query head of its group."""
    if groups == 1:
        return x
    if how == "interleave":
        return x.repeat_interleave(groups, dim=1)
    batch, heads, sequence, dim = x.kind.shape
    copies = x[:, :, None, :, :].expand((batch, heads, groups, sequence, dim))
    return copies.reshape((batch, heads * groups, sequence, dim))


def probabilities(scores: Tensor, upcast: str) -> Tensor:
    if upcast == "softmax":
        return scores.softmax(dim=-1, dtype=FLOAT32)
    return (scores.to(FLOAT32) if upcast == "scores" else scores).softmax(dim=-1)


def plain_scores(build: GraphBuilder) -> tuple[Tensor, Tensor]:
    query, key, value = (build.parameter(name, BATCH, 2, SEQUENCE, 4) for name in "qkv")
    return query @ key.transpose(2, 3), value
