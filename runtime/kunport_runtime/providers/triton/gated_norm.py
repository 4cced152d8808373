"""RMSNorm with a gate, over whole rows or groups of columns (Mamba 2, gated delta net)."""

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton import tuning
from kunport_runtime.providers.triton.gated_activation import activate
from kunport_runtime.providers.triton.rows import DEFAULTS, constants, load, store


@triton.jit
def _gated_rms_norm(
    out, x, gate, weight, epsilon, rows, out_stride, x_stride, gate_stride,
    GROUPS: tl.constexpr, SIZE: tl.constexpr, SIZE_PAD: tl.constexpr, ROWS: tl.constexpr, EXACT: tl.constexpr,
    ACTIVATION: tl.constexpr, NORM_FIRST: tl.constexpr,
):  # fmt: skip
    """A row of this kernel is a group of SIZE columns, of which a row of x has GROUPS."""
    number = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    row = (number // GROUPS).to(tl.int64)
    within = tl.arange(0, SIZE_PAD)[None, :]
    column = (number % GROUPS) * SIZE + within
    inside = (row < rows) & (within < SIZE)
    values = load(x + row * x_stride + column, inside, EXACT)
    gates = activate(load(gate + row * gate_stride + column, inside, EXACT), 1.0, ACTIVATION)
    if not NORM_FIRST:
        values = values * gates
    y = values * tl.rsqrt(tl.sum(values * values, 1, keep_dims=True) / SIZE + epsilon)
    if weight is not None:
        y = y * load(weight + column, inside, EXACT)
    if NORM_FIRST:
        y = y * gates
    store(out + row * out_stride + column, y, inside, EXACT)


def gated_rms_norm(
    *,
    out: torch.Tensor,
    x: torch.Tensor,
    gate: torch.Tensor,
    weight: torch.Tensor | None,
    epsilon: float,
    group_size: int = 0,
    order: str = "norm_first",
    activation: str = "silu",
) -> None:
    """Order "norm_first": rms(x) * weight * act(gate); "gate_first": rms(x * act(gate)) * weight; all [rows, size].

    group_size 0: a row is one group; else each group of that many columns has a mean of its own.
    """
    rows, columns = x.shape
    if not rows:
        return
    size = group_size or columns
    config = tuning.lookup("gated_rms_norm", x.dtype, x.device, DEFAULTS, rows=rows, size=size)
    groups = columns // size
    shape = constants(rows * groups, size, config)
    _gated_rms_norm[(triton.cdiv(rows * groups, shape["ROWS"]),)](
        out, x, gate, weight, epsilon, rows, out.stride(0), x.stride(0), gate.stride(0),
        GROUPS=groups, ACTIVATION=activation, NORM_FIRST=order == "norm_first", num_warps=config["warps"], **shape,
    )  # fmt: skip
