"""Functions of single numbers, and the softmax of many, in numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Scale and alpha of torch's selu (arXiv:1706.02515).
SELU, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


def softplus(value: Floats, *_: Any, **__: Any) -> Floats:
    result: Floats = np.logaddexp(value, 0.0)
    return result


def sigmoid(value: Floats) -> Floats:
    return 1 / (1 + np.exp(-value))


erf: Callable[[Floats], Floats] = np.vectorize(math.erf, otypes=[float])


def gelu(value: Floats, approximate: str = "none") -> Floats:
    """The Gaussian error linear unit (arXiv:1606.08415), exactly or by its ``tanh`` approximation."""
    if approximate == "tanh":
        share: Floats = np.tanh(math.sqrt(2 / math.pi) * (value + 0.044715 * value**3))
    else:
        share = erf(value / math.sqrt(2))
    return value / 2 * (1 + share)


def mish(value: Floats) -> Floats:
    """``x tanh(softplus(x))`` (arXiv:1908.08681)."""
    result: Floats = value * np.tanh(softplus(value))
    return result


def elu(value: Floats, alpha: float = 1.0) -> Floats:
    """The exponential linear unit (arXiv:1511.07289)."""
    result: Floats = np.where(value > 0, value, alpha * np.expm1(np.minimum(value, 0)))
    return result


def leaky_relu(value: Floats, negative_slope: float = 0.01, **_: Any) -> Floats:
    result: Floats = np.where(value > 0, value, negative_slope * value)
    return result


def hardswish(value: Floats) -> Floats:
    """``x relu6(x + 3) / 6`` (arXiv:1905.02244)."""
    result: Floats = value * np.clip(value + 3, 0, 6) / 6
    return result


def softmax(value: Floats, dim: int = -1, **_: Any) -> Floats:
    raised: Floats = np.exp(value - np.max(value, axis=dim, keepdims=True))
    result: Floats = raised / np.sum(raised, axis=dim, keepdims=True)
    return result
