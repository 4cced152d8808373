"""How far two answers of the engine to the same request are apart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kunport.validation.comparison.recordings import Floats, Ints, Observed


@dataclass(frozen=True, slots=True)
class Difference:
    """Over all requests.

    Attributes:
        error: largest absolute difference of a log-probability (nats); infinite where one side has none that is finite.
        divergence: mean Kullback-Leibler divergence (nats) over decoded positions, None where the engine gave only the
            likeliest tokens.
        equal, total: greedy tokens that are the same, of those compared. After a tie the rest is not.
    """

    error: float
    divergence: float | None
    equal: int
    total: int


def differ(kept: Iterable[Observed], others: Iterable[Observed], vocabulary: int, tie: float) -> Difference:
    """Compare answers request by request, each as far as both went the same way.

    Args:
        kept: the answers that the others are held against.
        others: of the same requests; prompts without log-probabilities are left out.
        vocabulary: number of token ids.
        tie: another token is allowed where it is within this (nats) of the one that was kept.
    """
    error, equal, total = 0.0, 0, 0
    divergences: list[float] = []
    for one, other in zip(kept, others, strict=True):
        same, wanted = _follow(one, other, tie)
        equal, total = equal + same, total + wanted
        steps = min(same + 1, len(one.steps), len(other.steps))  # the step that parts them has the same tokens before
        decoded = _aligned(one.step_ids[:steps], one.steps[:steps], other.step_ids[:steps], other.steps[:steps])
        error = max(error, _largest(*decoded))
        if other.prompt.size:
            error = max(error, _largest(*_aligned(one.prompt_ids, one.prompt, other.prompt_ids, other.prompt)))
        if decoded[0].shape[1] >= vocabulary:
            divergences += _divergences(*decoded)
    return Difference(error, float(np.mean(divergences)) if divergences else None, equal, total)


def _follow(one: Observed, other: Observed, tie: float) -> tuple[int, int]:
    """How many tokens are the same, of how many that had to be."""
    for step, own in enumerate(one.tokens):
        if step >= len(other.tokens):
            return step, len(one.tokens)
        if other.tokens[step] != own:
            values = dict(zip(one.step_ids[step].tolist(), one.steps[step].tolist(), strict=True))
            gap = values[int(own)] - values.get(int(other.tokens[step]), -np.inf)
            return step, step if gap < tie else len(one.tokens)
    return len(one.tokens), len(one.tokens)


Values = npt.NDArray[np.float64]


def _aligned(ids: Ints, values: Floats, other_ids: Ints, other_values: Floats) -> tuple[Values, Values]:
    """Both sides' log-probabilities of the tokens that both name, ``[N, K]`` each, NaN in place of what is missing.

    Raises:
        ValueError: the numbers of positions differ.
    """
    if len(ids) != len(other_ids):
        raise ValueError(f"the engine gave log-probabilities for {len(other_ids)} positions of {len(ids)}")
    one = np.full(ids.shape, np.nan)
    other = np.full(ids.shape, np.nan)
    for row, (tokens, theirs) in enumerate(zip(ids.tolist(), other_ids.tolist(), strict=True)):
        known = dict(zip(theirs, other_values[row].tolist(), strict=True))
        own = dict(zip(tokens, values[row].tolist(), strict=True))  # the chosen token may be named twice
        for column, token in enumerate(own):
            if token in known:
                one[row, column], other[row, column] = own[token], known[token]
    return one, other


def _largest(one: Values, other: Values) -> float:
    missing = np.isnan(one) & np.isnan(other)  # not named by both
    with np.errstate(invalid="ignore"):
        apart = np.where(missing | (one == other), 0.0, np.abs(one - other))
    return float(np.where(np.isnan(apart), np.inf, apart).max(initial=0.0))


def _divergences(one: Values, other: Values) -> list[float]:
    """Of each position: the sum of p (log p - log q), p of ``one``."""
    with np.errstate(invalid="ignore"):
        terms = np.where(one == -np.inf, 0.0, np.exp(one) * (one - other))
    return [float(each) for each in np.nansum(terms, axis=1)]
