"""Log-probabilities of a run of positions against the reference's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kunport.validation.comparison.recordings import Floats, Ints


@dataclass(frozen=True, slots=True)
class Errors:
    """Absolute differences (nats) at N positions.

    Attributes:
        largest: ``[N]``, the largest at each position among the finite ones.
        token: ``[N]``, the token it belongs to.
        got: ``[N]``, the engine's value for that token.
        total: sum of all finite differences.
        compared: how many were compared.
        not_finite: how many of them are NaN, or infinite on one side only.
    """

    largest: npt.NDArray[np.float64]
    token: Ints
    got: npt.NDArray[np.float64]
    total: float
    compared: int
    not_finite: int


def compare_logprobs(expected: Floats, ids: Ints, got: Floats) -> Errors:
    """Compare what the engine gives at each position with the reference.

    Args:
        expected: ``[N, V]``, the reference's log-probabilities.
        ids: ``[N, K]``, the tokens that the engine reports on.
        got: ``[N, K]``, the engine's log-probabilities of them.

    The reference's most likely token that the engine leaves out is compared as well: the engine finds it at most as
    likely as the least likely one it lists, so the reference's excess over that one is a lower bound of the error.

    Raises:
        ValueError: the positions do not agree in number, or a token is not in the vocabulary.
    """
    if expected.shape[0] != ids.shape[0]:
        raise ValueError(f"the engine gave log-probabilities for {ids.shape[0]} positions of {expected.shape[0]}")
    if not ids.size:
        empty = np.zeros(ids.shape[0])
        return Errors(empty, np.zeros(ids.shape[0], np.int64), empty, 0.0, 0, 0)
    if ids.min() < 0 or ids.max() >= expected.shape[1]:
        raise ValueError(f"the engine named token {ids.max()} of a vocabulary of {expected.shape[1]}")
    ids, got64 = _with_left_out(expected, ids, got.astype(np.float64))
    reference = np.take_along_axis(expected, ids, axis=1).astype(np.float64)
    with np.errstate(invalid="ignore"):
        difference = np.abs(reference - got64)
    difference[reference == got64] = 0.0  # equal infinities; their difference is NaN
    finite = np.isfinite(difference)
    masked = np.where(finite, difference, 0.0)
    at = np.argmax(masked, axis=1)[:, None]
    return Errors(
        largest=np.take_along_axis(masked, at, axis=1)[:, 0],
        token=np.take_along_axis(ids, at, axis=1)[:, 0],
        got=np.take_along_axis(got64, at, axis=1)[:, 0],
        total=float(masked.sum()),
        compared=difference.size,
        not_finite=int((~finite).sum()),
    )


def _with_left_out(expected: Floats, ids: Ints, got: npt.NDArray[np.float64]) -> tuple[Ints, npt.NDArray[np.float64]]:
    """``ids`` and ``got`` with a column more: the reference's most likely token that the engine left out.

    Its value is the engine's lowest where that is below the reference's, else the reference's own (no error is proven).
    """
    vocabulary, listed = expected.shape[1], ids.shape[1]
    if listed >= vocabulary:
        return ids, got
    left_out = np.array(expected, dtype=np.float64)
    np.put_along_axis(left_out, ids, -np.inf, axis=1)
    best = np.argmax(left_out, axis=1)[:, None]
    value = np.take_along_axis(expected, best, axis=1).astype(np.float64)
    lowest = np.sort(got, axis=1)[:, 1:2] if listed > 1 else got  # the actual token may rank below the listed ones
    return np.concatenate([ids, best], axis=1), np.concatenate([got, np.minimum(value, lowest)], axis=1)
