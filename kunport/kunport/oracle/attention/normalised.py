"""Norms of query and key, and where they stand."""

from __future__ import annotations

import torch
from torch import Tensor

from kunport.oracle.attention.output import find_clip
from kunport.oracle.attention.probe import Probe, ProbeError, calls_of
from kunport.oracle.attention.rotation import turns
from kunport.oracle.watch import Change, close


def find_qk_norm(probe: Probe) -> tuple[str | None, str | None]:
    """The place (``before_rope``, ``after_rope``, ``no_rope``, None without) and the span (``head``, ``all_heads``).

    A norm shows by what does not matter to it: the length of what it reads.

    Raises:
        ProbeError: only one of query and key has a norm, or nothing tells on which side of the rotation it stands.
    """
    normed = {name: _ignores_scale(probe, name) for name in ("query", "key")}
    if len(set(normed.values())) == 2:
        raise ProbeError("only one of query and key is normalised")
    if not normed["query"]:
        return None, None
    return _place(probe), _span(probe)


def _ignores_scale(probe: Probe, name: str) -> bool:
    """Whether a tensor stays where its projection grows from a size at which no epsilon matters; a clamp's does too."""
    large, larger = (_scaled(probe, name, factor) for factor in (1e3, 3e3))
    if not close(large, larger, 1e-3):
        return False
    return find_clip(probe) is None or not close(2 * _scaled(probe, name, 0.01), _scaled(probe, name, 0.02))


def _scaled(probe: Probe, name: str, factor: float) -> Tensor:
    tensor: Tensor = getattr(probe.run({probe.projections[name]: lambda out: out * factor}).scores, name)
    return tensor


def _place(probe: Probe) -> str:
    projection = probe.projections["query"]
    norms = probe.norms_after(projection, "query")
    if not turns(probe, projection, norms, "query"):
        return "no_rope"
    if not norms:
        raise ProbeError("the norm of the query is no module")
    after_norm = [turns(probe, norm, [], "query") for norm in norms]
    return "before_rope" if any(after_norm) else "after_rope"


def _span(probe: Probe) -> str:
    """Scale one element: the norm carries that to its own head, or to all of them."""
    before = probe.base.scores.query
    if len(before) == 1:
        raise ProbeError("one head is all heads")
    projection = probe.projections["query"]
    output = calls_of(probe.base.record, projection)[0].result
    for column in range(0 if output is None else output.shape[-1]):
        after = probe.run({projection: _scaling(column)}).scores.query
        changed = [not close(one, other, 1e-5) for one, other in zip(before, after, strict=True)]
        if any(changed) and (sum(changed) == 1 or all(changed)):
            return "all_heads" if all(changed) else "head"
    raise ProbeError("the span of the norm of the query is neither one head nor all")


def _scaling(column: int) -> Change:
    def change(out: Tensor) -> Tensor:
        factor = torch.ones(out.shape[-1])
        factor[column] = 5.0
        return out * factor

    return change
