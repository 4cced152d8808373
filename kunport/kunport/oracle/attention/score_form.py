"""From query and key to weights: scale, cap, linear bias, sinks, and who sees whom."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kunport.oracle.attention.probe import Probe, ProbeError
from kunport.oracle.watch import Scores

_AMPLIFIED = 1e4


@dataclass(frozen=True, slots=True)
class ScoreForm:
    """``logits = cap(scale * query @ key) + slope * distance`` for one attention; ``softcap`` None without a cap."""

    scale: float
    alibi: bool
    softcap: float | None


def find_score_form(probe: Probe) -> ScoreForm:
    """Scale, softcap and ALiBi of an attention.

    Raises:
        ProbeError: the logits are another function of query and key.
    """
    softcap = _softcap(probe)
    scores = probe.base.scores
    logits = scores.logits if softcap is None else softcap * torch.atanh(scores.logits.double() / softcap)
    scale, slopes, error = _fit(scores, logits, ~_allowed(scores))
    if error > 1e-3:
        raise ProbeError("the logits are no linear function of query times key and distance")
    return ScoreForm(scale, bool(slopes.abs().max() > 1e-4), softcap)


def _fit(scores: Scores, logits: Tensor, hidden: Tensor) -> tuple[float, Tensor, float]:
    """Scale, slope per head and relative error of differences of logits within a row, by least squares."""
    length = logits.shape[-1]
    products = scores.query.double() @ scores.key.double().transpose(-1, -2)
    distance = torch.arange(length)[None, :] - torch.arange(length)[:, None]

    first = (~hidden).int().argmax(-1, keepdim=True)  # each row's first visible key

    def relative(tensor: Tensor) -> Tensor:
        return tensor - tensor.gather(-1, first)

    wanted, known = relative(logits.double()), relative(products)
    steps = relative(distance.double().expand(logits.shape))
    scales, slopes, error = [], [], 0.0
    for head in range(logits.shape[0]):
        seen = ~hidden[head] & (steps[head] != 0)
        design = torch.stack([known[head][seen], steps[head][seen]], 1)
        solution = torch.linalg.lstsq(design, wanted[head][seen][:, None]).solution[:, 0]
        residual = (design @ solution - wanted[head][seen]).abs().max() / wanted[head][seen].abs().max()
        error = max(error, float(residual))
        scales.append(float(solution[0]))
        slopes.append(float(solution[1]))
    if max(scales) - min(scales) > 1e-3 * abs(max(scales)):
        raise ProbeError("the heads have scales of their own")
    return sum(scales) / len(scales), torch.tensor(slopes), error


def _softcap(probe: Probe) -> float | None:
    """The cap, from queries so large that every score meets it."""
    projection = probe.projections["query"]
    norms = probe.norms_after(projection, "query")
    source = norms[-1:] or [projection]
    scores = probe.run({module: lambda out: out * _AMPLIFIED for module in source}).scores
    seen = _allowed(probe.base.scores)
    large = scores.logits[seen].abs()
    top = float(large.max())
    if float((large > 0.999 * top).float().mean()) > 0.3 and top < 1e3:
        return top
    if _fit(scores, scores.logits, ~seen)[2] > 1e-3:
        raise ProbeError("large scores are no linear function of query times key")
    return None


def _allowed(scores: Scores) -> Tensor:
    return scores.weights > 0


@dataclass(frozen=True, slots=True)
class Sight:
    """Which keys a query sees: the last ``window``, or those of its own ``chunk``; both None for all before it."""

    window: int | None
    chunk: int | None


def find_sight(scores: Scores) -> Sight | None:
    """The pattern of a causal mask; None where it is another one."""
    allowed = scores.weights.detach() > 0
    if not bool((allowed == allowed[:1]).all()):
        return None
    seen = allowed[0]
    length = seen.shape[0]
    rows, columns = torch.arange(length)[:, None], torch.arange(length)[None, :]
    causal = columns <= rows
    if torch.equal(seen, causal):
        return Sight(None, None)
    for size in range(1, length):
        if torch.equal(seen, causal & (rows - columns < size)):
            return Sight(size, None)
        if torch.equal(seen, causal & (rows // size == columns // size)):
            return Sight(None, size)
    return None


def depends_on_content(probe: Probe) -> bool:
    """Whether other hidden states make other keys visible."""
    before, other = probe.base.scores, probe.run(hidden=lambda read: read.flip(1)).scores
    return not torch.equal(before.weights > 0, other.weights > 0)


def count_kv_heads(key: Tensor) -> int:
    """How many heads of ``[heads, sequence, head_dim]`` differ from each other."""
    return len({bytes(head.detach().contiguous().numpy().tobytes()) for head in key})
