"""RMS norm of queries and keys, and the rotary position embedding of the result, in place.

The norm is that of `rms_norm`, over each head (``span="head"``: Qwen3) or over all heads of a token (``"all_heads"``:
OLMo 2), rounded to the dtype of ``query``; the rotation is that of `rotary_embedding`.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kunport_runtime.operators.contract import INDICES, Case, Contract, option, reads
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.norms.options import CAST, EPSILON, OFFSET
from kunport_runtime.operators.numerics import scaled_rms
from kunport_runtime.operators.positions.rotary_embedding import LIMITS
from kunport_runtime.operators.positions.rotary_embedding import reference as rotary_embedding
from kunport_runtime.operators.positions.rotation import COS_SIN_CACHE, KEY, PAIRING, QUERY, angles
from kunport_runtime.operators.tolerance import rounded

ARGUMENTS = (
    QUERY,
    KEY,
    reads("positions", "tokens", "of each token", dtypes=INDICES),
    COS_SIN_CACHE,
    reads("query_weight", "query_norm_size", "of a head, or of all heads of a query"),
    reads("key_weight", "key_norm_size", "of a head, or of all heads of a key"),
    EPSILON,
    OFFSET,
    CAST,
    option("span", str, "what is normed together", default="head", choices=("head", "all_heads")),
    PAIRING,
)
# The norm's six roundings and the rotation's two, on terms of a normed row times a weight.
TOLERANCE = rounded(8, scale=3.0)


def reference(
    query: torch.Tensor,
    key: torch.Tensor,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    query_weight: torch.Tensor,
    key_weight: torch.Tensor,
    epsilon: float,
    offset: float,
    cast: str,
    span: str,
    pairing: str,
) -> None:
    """One after the other."""
    for heads, weight in ((query, query_weight), (key, key_weight)):
        rows = heads if span == "head" else heads.flatten(1)
        heads.copy_(scaled_rms(rows, weight, epsilon, offset, cast).view(heads.shape))
    rotary_embedding(query, key, positions, cos_sin_cache, pairing)


def draw_arguments(
    draw: Draw,
    span: str,
    cast: str,
    pairing: str,
    tokens: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    rotary_dim: int,
) -> dict[str, object]:
    """Arguments in the slices of one packed projection."""
    sizes = (heads * head_dim, kv_heads * head_dim)
    query, key = draw.normal(tokens, sum(sizes), spare=16).tensor_split((sizes[0], sum(sizes)), dim=-1)[:2]
    return {
        "query": query.view(tokens, heads, head_dim),
        "key": key.view(tokens, kv_heads, head_dim),
        "positions": draw.integers(tokens, high=50),
        "cos_sin_cache": angles(50, rotary_dim).to(draw.device),
        "query_weight": draw.normal(head_dim if span == "head" else sizes[0]),
        "key_weight": draw.normal(head_dim if span == "head" else sizes[1]),
        "epsilon": 1e-6,
        "offset": 0.0 if cast == "before_weight" else 1.0,
        "cast": cast,
        "span": span,
        "pairing": pairing,
    }


FORMS = (
    ("head", "before_weight", "half", 5, 4, 2, 64, 64),
    ("all_heads", "after_weight", "half", 3, 4, 4, 80, 80),
    ("head", "after_weight", "interleaved", 9, 6, 1, 128, 64),
)


def cases(draw: Draw) -> Iterator[Case]:
    """Heads and all heads, both pairings, whole and partial rotation."""
    for form in FORMS:
        yield Case(f"{form[0]}, cast {form[1]}, {form[2]}, {form[7]} of {form[6]}", draw_arguments(draw, *form))


CONTRACT = Contract(
    name="qk_norm_rope",
    arguments=ARGUMENTS,
    reference=reference,
    cases=cases,
    tolerance=TOLERANCE,
    dtype_of="query",
    limits=LIMITS,
)
