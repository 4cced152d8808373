"""What the kernels of states share: which tokens and which state a sequence has, and functions of float32."""

import triton
import triton.language as tl

from kunport_runtime.providers.triton.softmax import LOG2E


@triton.jit
def sequence_of(number, starts, slots, initials):
    """First token and end of a sequence, the row of its state, and whether that state counts."""
    first = tl.load(starts + number).to(tl.int64)
    end = tl.load(starts + number + 1).to(tl.int64)
    return first, end, tl.load(slots + number).to(tl.int64), tl.load(initials + number)


@triton.jit
def exp(x):
    return tl.exp2(x * LOG2E)


@triton.jit
def softplus(x):
    """log(1 + exp(x)), of no large exponential."""
    return tl.maximum(x, 0.0) + tl.log(1.0 + exp(-tl.abs(x)))


@triton.jit
def one_minus_exp(x):
    """1 - exp(x), x <= 0: a series near 0, where the difference would lose what counts."""
    series = -x * (1.0 + x * (1.0 / 2.0) * (1.0 + x * (1.0 / 3.0) * (1.0 + x * (1.0 / 4.0) * (1.0 + x * (1.0 / 5.0)))))
    return tl.where(x > -0.1, series, 1.0 - exp(x))
