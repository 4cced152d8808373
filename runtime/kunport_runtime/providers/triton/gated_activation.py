"""Gated activations, act(gate) * (up + offset), of a matrix that holds gate and up side by side (Shazeer 2020)."""

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton import tuning
from kunport_runtime.providers.triton.softmax import LOG2E

# `block`: columns of the result a program takes.
DEFAULTS: tuning.Config = {"block": 1024, "warps": 4}


@triton.jit
def sigmoid(x):
    return 1.0 / (1.0 + tl.exp2(x * -LOG2E))


@triton.jit
def activate(x, alpha, ACTIVATION: tl.constexpr):
    """The activation named, of x float32; `alpha` is silu's: x * sigmoid(alpha * x)."""
    if ACTIVATION == "silu":
        y = x * sigmoid(alpha * x)
    elif ACTIVATION == "gelu":
        y = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif ACTIVATION == "gelu_tanh":  # 0.5 * (1 + tanh(u)) = sigmoid(2 u), u = sqrt(2 / pi) * (x + 0.044715 x^3)
        y = x * sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    elif ACTIVATION == "relu":
        y = tl.maximum(x, 0.0)
    elif ACTIVATION == "relu_squared":
        y = tl.maximum(x, 0.0) * tl.maximum(x, 0.0)
    elif ACTIVATION == "sigmoid":
        y = sigmoid(x)
    elif ACTIVATION == "tanh":
        y = 2.0 * sigmoid(2.0 * x) - 1.0
    else:
        tl.static_assert(ACTIVATION == "identity", "unknown activation")
        y = x
    return y


@triton.jit
def gated(gate, up, alpha, limit, up_offset, ACTIVATION: tl.constexpr, LIMITED: tl.constexpr):
    """act(gate) * (up + up_offset), float32; LIMITED: gate is cut above limit, up on both sides, first."""
    if LIMITED:
        gate = tl.minimum(gate, limit)
        up = tl.minimum(tl.maximum(up, -limit), limit)
    return activate(gate, alpha, ACTIVATION) * (up + up_offset)


@triton.jit
def _gated_activation(
    out, x, alpha, limit, up_offset, out_stride, x_stride,
    SIZE: tl.constexpr, BLOCK: tl.constexpr, INTERLEAVED: tl.constexpr, ACTIVATION: tl.constexpr, LIMITED: tl.constexpr,
):  # fmt: skip
    """Program (row, block of columns), blocks fastest."""
    BLOCKS: tl.constexpr = (SIZE + BLOCK - 1) // BLOCK
    row = (tl.program_id(0) // BLOCKS).to(tl.int64)
    first = tl.program_id(0) % BLOCKS * BLOCK
    column = first + tl.arange(0, BLOCK)
    if INTERLEAVED:
        pairs = 2 * first + tl.arange(0, 2 * BLOCK)
        both = tl.load(x + row * x_stride + pairs, mask=pairs < 2 * SIZE, other=0.0).to(tl.float32)
        gate, up = tl.split(tl.reshape(both, [BLOCK, 2]))
    else:
        gate = tl.load(x + row * x_stride + column, mask=column < SIZE, other=0.0).to(tl.float32)
        up = tl.load(x + row * x_stride + SIZE + column, mask=column < SIZE, other=0.0).to(tl.float32)
    y = gated(gate, up, alpha, limit, up_offset, ACTIVATION, LIMITED)
    tl.store(out + row * out_stride + column, y.to(out.dtype.element_ty), mask=column < SIZE)


def gated_activation(
    *,
    out: torch.Tensor,
    x: torch.Tensor,
    activation: str = "silu",
    packing: str = "halves",
    alpha: float = 1.0,
    limit: float = 0.0,
    up_offset: float = 0.0,
) -> None:
    """Out [rows, size] of x [rows, 2 * size]; packing "halves": all gates, then all ups; "interleaved": in turn.

    activation: silu, gelu, gelu_tanh, relu, relu_squared, sigmoid, tanh or identity; limit 0: none.
    """
    rows, size = out.shape
    if not rows:
        return
    config = tuning.lookup("gated_activation", x.dtype, x.device, DEFAULTS, rows=rows, size=size)
    block = min(config["block"], triton.next_power_of_2(size))
    _gated_activation[(rows * triton.cdiv(size, block),)](
        out, x, alpha, limit, up_offset, out.stride(0), x.stride(0),
        SIZE=size, BLOCK=block, INTERLEAVED=packing == "interleaved", ACTIVATION=activation, LIMITED=limit > 0,
        num_warps=config["warps"],
    )  # fmt: skip
