"""All requests of a batch, added up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kunport.validation.comparison.greedy import Greedy, compare_greedy
from kunport.validation.comparison.logprobs import Errors, compare_logprobs
from kunport.validation.comparison.recordings import Expected, Floats, Observed
from kunport.validation.limits import Limits
from kunport.validation.report import Batch, Memory, Mismatch, Worst


@dataclass(frozen=True, slots=True)
class _Part:
    """The errors of a run of positions of a request: row 0 of ``errors`` and ``expected`` is at ``start``."""

    request: int
    start: int
    expected: Floats
    errors: Errors

    @property
    def peak(self) -> float:
        return float(self.errors.largest.max(initial=0.0))


def compare_batch(
    expected: Sequence[Expected], observed: Sequence[Observed], limits: Limits, memory: Memory, seconds: float
) -> Batch:
    """Compare each request of a batch with the reference, whatever ran beside it.

    ``memory`` and ``seconds`` are those of the run without log-probabilities.

    Raises:
        ValueError: the engine's answer does not have the form that was asked for (`compare_logprobs`).
    """
    followed = [compare_greedy(one, other.tokens, limits.tie) for one, other in zip(expected, observed, strict=True)]
    repeated = [compare_greedy(one, other.repeated, limits.tie) for one, other in zip(expected, observed, strict=True)]
    prompts, decoded = [], []
    for request, (one, other, greedy) in enumerate(zip(expected, observed, followed, strict=True)):
        steps = min(greedy.same_context, len(other.steps))
        prompt = compare_logprobs(one.prompt, other.prompt_ids, other.prompt)
        prompts.append(_Part(request, 1, one.prompt, prompt))
        decode = compare_logprobs(one.steps[:steps], other.step_ids[:steps], other.steps[:steps])
        decoded.append(_Part(request, len(one.prompt) + 1, one.steps, decode))

    parts = prompts + decoded
    compared = sum(part.errors.compared for part in parts)
    not_finite = sum(part.errors.not_finite for part in parts)
    return Batch(
        size=len(observed),
        compared=compared,
        not_finite=not_finite,
        max_error=max(part.peak for part in parts),
        mean_error=sum(part.errors.total for part in parts) / max(1, compared - not_finite),
        prompt_error=max(part.peak for part in prompts),
        decode_error=max(part.peak for part in decoded),
        worst=_worst(parts),
        error_by_position=_by_position(parts),
        greedy_equal=sum(greedy.equal for greedy in followed),
        greedy_total=sum(greedy.total for greedy in followed),
        ties=sum(greedy.tie for greedy in followed),
        mismatches=_mismatches(expected, followed),
        repeat_differs=[request for request, greedy in enumerate(repeated) if greedy.mismatch is not None],
        memory=memory,
        seconds=seconds,
        tokens_per_second=sum(len(one.repeated) for one in observed) / seconds,
    )


def _mismatches(expected: Sequence[Expected], followed: Sequence[Greedy]) -> list[Mismatch]:
    found = []
    for request, (reference, greedy) in enumerate(zip(expected, followed, strict=True)):
        if greedy.mismatch is not None:
            step, got, gap = greedy.mismatch
            found.append(Mismatch(request, step, int(reference.tokens[step]), got, gap))
    return found


def _worst(parts: Sequence[_Part]) -> Worst | None:
    part = max((part for part in parts if len(part.errors.largest)), key=lambda part: part.peak, default=None)
    if part is None:
        return None
    row = int(part.errors.largest.argmax())
    token = int(part.errors.token[row])
    expected, got = float(part.expected[row, token]), float(part.errors.got[row])
    return Worst(part.request, part.start + row, token, expected, got)


def _by_position(parts: Sequence[_Part]) -> list[float | None]:
    length = max(part.start + len(part.errors.largest) for part in parts)
    result: list[float | None] = [None] * length
    for part in parts:
        for position, error in enumerate(part.errors.largest.tolist(), part.start):
            result[position] = max(result[position] or 0.0, error)
    return result
