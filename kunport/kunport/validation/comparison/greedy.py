"""Greedy tokens against the reference's, forgiving only what the reference itself leaves open."""

from __future__ import annotations

from dataclasses import dataclass

from kunport.validation.comparison.recordings import Expected, Ints


@dataclass(frozen=True, slots=True)
class Greedy:
    """How far one request followed the reference.

    Attributes:
        equal: tokens equal to the reference's before the first difference.
        total: tokens that had to be equal: all, or those before an allowed difference.
        same_context: generated positions whose earlier tokens are the reference's: their log-probabilities compare.
        tie: it left the reference's path where the reference was undecided; the rest of the sequence is not compared.
        mismatch: (step, token it gave or None where it stopped, how much less likely the reference finds that one in
            nats), where it left it elsewhere.
    """

    equal: int
    total: int
    same_context: int
    tie: bool
    mismatch: tuple[int, int | None, float] | None


def compare_greedy(expected: Expected, tokens: Ints, tie: float) -> Greedy:
    """Follow ``tokens`` ``[T]`` along the reference until they part.

    A different token is allowed where the reference finds it within ``tie`` nats of its own choice, which is
    stricter than asking whether the reference's first two are that close: the token must be one of them.
    """
    wanted = len(expected.tokens)
    for step, own in enumerate(expected.tokens):
        if step >= len(tokens):
            return Greedy(step, wanted, step, tie=False, mismatch=(step, None, float("inf")))
        other = tokens[step]
        if other == own:
            continue
        known = 0 <= other < expected.steps.shape[1]
        gap = float(expected.steps[step, own]) - float(expected.steps[step, other]) if known else float("inf")
        if gap < tie:
            return Greedy(step, step, step + 1, tie=True, mismatch=None)
        return Greedy(step, wanted, step + 1, tie=False, mismatch=(step, int(other), gap))
    return Greedy(wanted, wanted, wanted, tie=False, mismatch=None)
