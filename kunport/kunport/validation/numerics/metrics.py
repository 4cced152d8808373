"""Measures of a difference that stand beside the limit: no verdict rests on them."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Metrics:
    """How ``got`` differs from ``expected``.

    Attributes:
        max_absolute: largest absolute difference.
        relative: Euclidean norm of the difference over that of ``expected``.
        cosine: of the two as vectors.
        ulp: largest difference in units in the last place of the precision at ``expected``'s own magnitude.
    """

    max_absolute: float
    relative: float
    cosine: float
    ulp: float


def measure(got: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> Metrics:
    """Compare tensors of one shape; ``dtype`` is the precision whose units in the last place count."""
    one, other = got.double().flatten(), expected.double().flatten()
    difference = one - other
    info = torch.finfo(dtype)
    # The spacing at x is epsilon * 2 ** floor(log2 |x|); frexp's exponent is one above that floor.
    spacing = info.eps * 2.0 ** (other.abs().clamp(min=info.tiny).frexp().exponent - 1).double()
    norm = float(other.norm())
    return Metrics(
        max_absolute=float(difference.abs().max()),
        relative=float(difference.norm()) / norm if norm else float(difference.norm() > 0),
        cosine=float(torch.nn.functional.cosine_similarity(one, other, dim=0)),
        ulp=float((difference.abs() / spacing).max()),
    )


def divergence(got: torch.Tensor, expected: torch.Tensor) -> float:
    """Mean Kullback-Leibler divergence (nats) of log-probabilities ``[rows, V]``: sum p (log p - log q), p expected."""
    p, q = expected.double(), got.double()
    terms = torch.where(p == -torch.inf, 0.0, p.exp() * (p - q))
    return float(terms.sum(dim=-1).mean())


def agreement(got: torch.Tensor, expected: torch.Tensor, k: int = 5) -> float:
    """The share of ``expected``'s k largest columns that are among ``got``'s k largest, over all rows ``[rows, V]``."""
    k = min(k, got.shape[-1])
    one, other = got.topk(k, dim=-1).indices, expected.topk(k, dim=-1).indices
    return float((one[..., None] == other[..., None, :]).any(-1).double().mean())
