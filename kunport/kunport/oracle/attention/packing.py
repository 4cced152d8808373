"""How query, key and value are packed in the projections' rows."""

from __future__ import annotations

from itertools import groupby

import torch
from torch import Tensor, nn

from kunport.oracle.attention.probe import TENSORS, Probe, ProbeError
from kunport.oracle.attention.rotation import positions_axis
from kunport.oracle.attention.score_form import count_kv_heads

Row = tuple[str, int]


def find_packing(probe: Probe) -> list[str]:
    """The names of the packing that are right, the usual one first.

    Raises:
        ProbeError: the rows follow none of the known orders.
    """
    query, key, value = (probe.projections[name] for name in TENSORS)
    if len({query, key, value}) == 3:
        return ["separate"]
    if key is value and query is not key:
        return ["kv", "q_kv"]
    if not query is key is value:
        raise ProbeError("two of query, key and value share a projection in an unusual way")
    heads = probe.base.scores.query.shape[0]
    kv_heads = count_kv_heads(probe.base.scores.key)
    owners = [owner for owner, _ in groupby(_owners(probe, query, heads // kv_heads))]
    names = [name for name, order in _orders(heads, kv_heads).items() if order == owners]
    if not names:
        raise ProbeError("the rows of the fused projection follow no known order")
    return names


def _orders(heads: int, kv_heads: int) -> dict[str, list[Row]]:
    ratio = heads // kv_heads
    parts = {"q": heads, "k": kv_heads, "v": kv_heads}
    grouped = [
        row
        for group in range(kv_heads)
        for row in [*(("q", group * ratio + each) for each in range(ratio)), ("k", group), ("v", group)]
    ]
    concatenated = [(part, head) for part, count in parts.items() for head in range(count)]
    if heads == kv_heads:
        return {"qkv_concatenated": concatenated, "qkv_per_head": grouped, "qkv_per_group": grouped}
    return {"qkv_concatenated": concatenated, "qkv_per_group": grouped}


def _owners(probe: Probe, projection: nn.Module, ratio: int) -> list[Row]:
    """Which head of which tensor each row of the projection goes to."""
    made: list[Tensor] = []

    def change(out: Tensor) -> Tensor:
        made.append((0.1 * torch.randn_like(out)).requires_grad_())
        return made[-1].clone()

    scores = probe.run({projection: change}, probe.inner_norms, grad=True).scores
    positions = positions_axis(made[0], probe.length)
    others = [axis for axis in range(made[0].ndim - 1) if axis != positions]
    owners: dict[int, Row] = {}
    for name, letter, share in (("query", "q", 1), ("key", "k", ratio), ("value", "v", ratio)):
        for head, tensor in enumerate(getattr(scores, name)):
            noise = torch.rand(tensor.shape, generator=torch.Generator().manual_seed(head)) + 0.5
            gradient = torch.autograd.grad((tensor * noise).sum(), made[0], retain_graph=True)[0]
            reached = gradient.abs().sum([positions, *others])
            owners |= dict.fromkeys(reached.nonzero().flatten().tolist(), (letter, head // share))
    if len(owners) != made[0].shape[-1]:
        raise ProbeError("rows of the fused projection go to neither query, key nor value")
    return [owners[row] for row in range(len(owners))]
