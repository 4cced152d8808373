"""The experts of every token, weighted and summed: three kernels, and the host waits for nothing.

A choice is a token with one of its experts, choices are sorted by expert. `_up` gathers the tokens of an expert and
makes gate and up at once, so that what is stored is activated; `_down` makes each choice's output, in float32, where
its token will look for it; `_sum` adds a token's choices.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton import tuning
from kunport_runtime.providers.triton.expert_order import by_expert
from kunport_runtime.providers.triton.gated_activation import gated
from kunport_runtime.providers.triton.tiles import along, columns, fitted, owner_of_few, product, spread

# `short`: rows of an expert's last tile where they are enough, 0: it is like the others; `descriptors`: weights are
# read through tensor descriptors, where the device has them.
DEFAULTS: tuning.Config = {"short": 0, "descriptors": False}


@triton.jit(do_not_specialize=["row_tiles"])
def _up(
    hidden, x, weight, matrices, bias, order, starts, row_tiles, experts, size, in_size, alpha, limit, up_offset,
    x_stride, expert_stride, weight_stride, bias_stride,
    TOP_K: tl.constexpr, INTERLEAVED: tl.constexpr, ACTIVATION: tl.constexpr, LIMITED: tl.constexpr,
    EXPERTS_PAD: tl.constexpr, ROWS: tl.constexpr, SHORT: tl.constexpr, OUTPUTS: tl.constexpr, DEPTH: tl.constexpr,
    BAND: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Hidden [choices, size], sorted by expert."""
    row_tile, output_tile = spread(tl.program_id(0), row_tiles, tl.cdiv(size, OUTPUTS), BAND)
    expert, first, end, begin = owner_of_few(starts, experts, row_tile, ROWS, EXPERTS_PAD)
    if (begin < first) | (begin >= end):
        return
    if SHORT:
        if end - begin <= SHORT:
            _up_tile(
                hidden, x, weight, matrices, bias, order, expert, begin, end, output_tile, size, in_size,
                alpha, limit, up_offset, x_stride, expert_stride, weight_stride, bias_stride,
                TOP_K, INTERLEAVED, ACTIVATION, LIMITED, SHORT, OUTPUTS, DEPTH, EVEN,
            )  # fmt: skip
            return
    _up_tile(
        hidden, x, weight, matrices, bias, order, expert, begin, end, output_tile, size, in_size,
        alpha, limit, up_offset, x_stride, expert_stride, weight_stride, bias_stride,
        TOP_K, INTERLEAVED, ACTIVATION, LIMITED, ROWS, OUTPUTS, DEPTH, EVEN,
    )  # fmt: skip


@triton.jit
def _up_tile(
    hidden, x, weight, matrices, bias, order, expert, begin, end, output_tile, size, in_size,
    alpha, limit, up_offset, x_stride, expert_stride, weight_stride, bias_stride,
    TOP_K: tl.constexpr, INTERLEAVED: tl.constexpr, ACTIVATION: tl.constexpr, LIMITED: tl.constexpr,
    ROWS: tl.constexpr, OUTPUTS: tl.constexpr, DEPTH: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    row = begin + tl.arange(0, ROWS)
    output = output_tile * OUTPUTS + tl.arange(0, OUTPUTS)
    token = tl.load(order + tl.minimum(row, end - 1)) // TOP_K
    x_rows = x + token.to(tl.int64) * x_stride
    if matrices is not None:
        place = expert * 2 * size + output_tile * OUTPUTS
        gate = tl.zeros([ROWS, OUTPUTS], tl.float32)
        up = tl.zeros([ROWS, OUTPUTS], tl.float32)
        for start in range(0, in_size, DEPTH):
            column = start + tl.arange(0, DEPTH)
            a = columns(x_rows, column, in_size, EVEN)
            of_gate = matrices.load([place, start]).T
            of_up = matrices.load([place + size, start]).T
            gate = tl.dot(a, of_gate, gate, input_precision="ieee")
            up = tl.dot(a, of_up, up, input_precision="ieee")
    else:
        # Rows of gate and up take turns in the tile, so that one product makes both and a thread has both of an output.
        number = tl.arange(0, 2 * OUTPUTS)
        column = tl.minimum(output_tile * OUTPUTS + number // 2, size - 1)
        if INTERLEAVED:
            matrix_row = 2 * column + number % 2
        else:
            matrix_row = column + number % 2 * size
        weight_rows = weight + expert.to(tl.int64) * expert_stride + matrix_row.to(tl.int64) * weight_stride
        total = product(x_rows, weight_rows, in_size, tl.zeros([ROWS, 2 * OUTPUTS], tl.float32), DEPTH, EVEN)
        gate, up = tl.split(total.reshape([ROWS, OUTPUTS, 2]))
    if bias is not None:
        of_gate = bias + expert * bias_stride + output * (2 if INTERLEAVED else 1)
        gate += tl.load(of_gate, mask=output < size, other=0.0).to(tl.float32)[None, :]
        of_up = of_gate + (1 if INTERLEAVED else size)
        up += tl.load(of_up, mask=output < size, other=0.0).to(tl.float32)[None, :]
    gate = gate.to(x.dtype.element_ty).to(tl.float32)
    up = up.to(x.dtype.element_ty).to(tl.float32)
    result = gated(gate, up, alpha, limit, up_offset, ACTIVATION, LIMITED)
    place = row.to(tl.int64)[:, None] * size + output[None, :]
    tl.store(hidden + place, result.to(hidden.dtype.element_ty), mask=(row < end)[:, None] & (output < size)[None, :])


@triton.jit(do_not_specialize=["row_tiles"])
def _down(
    partial, hidden, weight, matrices, bias, weights, order, starts, row_tiles, experts, out_size, size,
    expert_stride, weight_stride, bias_stride, weights_stride, TOP_K: tl.constexpr,
    EXPERTS_PAD: tl.constexpr, ROWS: tl.constexpr, SHORT: tl.constexpr, OUTPUTS: tl.constexpr, DEPTH: tl.constexpr,
    BAND: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Partial [tokens * TOP_K, out_size] float32, in the order of tokens; what no expert of ours has is not written."""
    row_tile, output_tile = spread(tl.program_id(0), row_tiles, tl.cdiv(out_size, OUTPUTS), BAND)
    expert, first, end, begin = owner_of_few(starts, experts, row_tile, ROWS, EXPERTS_PAD)
    if (begin < first) | (begin >= end):
        return
    if SHORT:
        if end - begin <= SHORT:
            _down_tile(
                partial, hidden, weight, matrices, bias, weights, order, expert, begin, end, output_tile, out_size,
                size, expert_stride, weight_stride, bias_stride, weights_stride, TOP_K, SHORT, OUTPUTS, DEPTH, EVEN,
            )  # fmt: skip
            return
    _down_tile(
        partial, hidden, weight, matrices, bias, weights, order, expert, begin, end, output_tile, out_size, size,
        expert_stride, weight_stride, bias_stride, weights_stride, TOP_K, ROWS, OUTPUTS, DEPTH, EVEN,
    )  # fmt: skip


@triton.jit
def _down_tile(
    partial, hidden, weight, matrices, bias, weights, order, expert, begin, end, output_tile, out_size, size,
    expert_stride, weight_stride, bias_stride, weights_stride, TOP_K: tl.constexpr,
    ROWS: tl.constexpr, OUTPUTS: tl.constexpr, DEPTH: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    row = begin + tl.arange(0, ROWS)
    output = output_tile * OUTPUTS + tl.arange(0, OUTPUTS)
    hidden_rows = along(hidden, row, end, size)
    total = tl.zeros([ROWS, OUTPUTS], tl.float32)
    if matrices is not None:
        for start in range(0, size, DEPTH):
            column = start + tl.arange(0, DEPTH)
            b = matrices.load([expert * out_size + output_tile * OUTPUTS, start]).T
            total = tl.dot(columns(hidden_rows, column, size, EVEN), b, total, input_precision="ieee")
    else:
        weight_rows = along(weight + expert.to(tl.int64) * expert_stride, output, out_size, weight_stride)
        total = product(hidden_rows, weight_rows, size, total, DEPTH, EVEN)
    if bias is not None:
        own = bias + expert * bias_stride
        total += tl.load(own + output, mask=output < out_size, other=0.0).to(tl.float32)[None, :]
    choice = tl.load(order + tl.minimum(row, end - 1)).to(tl.int64)
    factor = tl.load(weights + choice // TOP_K * weights_stride + choice % TOP_K)
    inside = (row < end)[:, None] & (output < out_size)[None, :]
    tl.store(partial + choice[:, None] * out_size + output[None, :], total * factor[:, None], mask=inside)


@triton.jit
def _sum(
    out, partial, ids, out_size, out_stride, ids_stride, TOP_K: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Program (token, block of its elements)."""
    blocks = tl.cdiv(out_size, BLOCK)
    token = (tl.program_id(0) // blocks).to(tl.int64)
    column = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for choice in range(TOP_K):
        ours = tl.load(ids + token * ids_stride + choice) >= 0
        row = partial + (token * TOP_K + choice) * out_size
        total += tl.load(row + column, mask=tl.where(ours, column < out_size, False), other=0.0)
    tl.store(out + token * out_stride + column, total.to(out.dtype.element_ty), mask=column < out_size)


def fused_experts(
    *,
    out: torch.Tensor,
    x: torch.Tensor,
    gate_up_weight: torch.Tensor,
    down_weight: torch.Tensor,
    weights: torch.Tensor,
    ids: torch.Tensor,
    gate_up_bias: torch.Tensor | None,
    down_bias: torch.Tensor | None,
    activation: str = "silu",
    packing: str = "halves",
    alpha: float = 1.0,
    limit: float = 0.0,
    up_offset: float = 0.0,
) -> None:
    """Out [tokens, hidden] of x, gate_up_weight [experts, 2 * size, hidden] and down_weight [experts, hidden, size].

    weights and ids [tokens, top_k]: of each token's experts, id -1 adds nothing; the activation is that of
    `gated_activation`.
    """
    tokens, hidden_size = x.shape
    experts, _, size = down_weight.shape
    top_k = ids.shape[1]
    choices = tokens * top_k
    if not choices:
        out.zero_()
        return
    order, starts = by_expert(ids.contiguous(), experts)
    hidden = torch.empty(choices, size, dtype=x.dtype, device=x.device)
    partial = torch.empty(choices, hidden_size, dtype=torch.float32, device=x.device)
    rows, pad = triton.cdiv(choices, experts), triton.next_power_of_2(experts)

    gate_up_matrices = gate_up_weight if packing == "halves" else None
    tile, launch, matrices = _fitted("fused_experts_up", x, rows, size, hidden_size, gate_up_matrices)
    row_tiles = choices // tile["ROWS"] + experts
    _up[(row_tiles * triton.cdiv(size, tile["OUTPUTS"]),)](
        hidden, x, gate_up_weight, matrices, gate_up_bias, order, starts, row_tiles, experts, size, hidden_size,
        alpha, limit, up_offset, x.stride(0), *gate_up_weight.stride()[:2],
        gate_up_bias.stride(0) if gate_up_bias is not None else 0,
        TOP_K=top_k, INTERLEAVED=packing == "interleaved", ACTIVATION=activation, LIMITED=limit > 0,
        EXPERTS_PAD=pad, EVEN=hidden_size % tile["DEPTH"] == 0, **tile, **launch,
    )  # fmt: skip
    tile, launch, matrices = _fitted("fused_experts_down", x, rows, hidden_size, size, down_weight)
    row_tiles = choices // tile["ROWS"] + experts
    _down[(row_tiles * triton.cdiv(hidden_size, tile["OUTPUTS"]),)](
        partial, hidden, down_weight, matrices, down_bias, weights, order, starts, row_tiles, experts, hidden_size,
        size, *down_weight.stride()[:2], down_bias.stride(0) if down_bias is not None else 0, weights.stride(0),
        TOP_K=top_k, EXPERTS_PAD=pad, EVEN=size % tile["DEPTH"] == 0, **tile, **launch,
    )  # fmt: skip
    block = min(1024, triton.next_power_of_2(hidden_size))
    _sum[(tokens * triton.cdiv(hidden_size, block),)](
        out, partial, ids, hidden_size, out.stride(0), ids.stride(0), TOP_K=top_k, BLOCK=block, num_warps=4
    )


def _fitted(
    operator: str, x: torch.Tensor, rows: int, out_size: int, in_size: int, weight: torch.Tensor | None
) -> tuple[dict[str, int], dict[str, int], Any]:
    """Constants, warps and stages of a kernel, and `weight` through a descriptor where it is to be read so."""
    tile, launch = fitted(operator, x.dtype, x.device, rows, out_size, in_size)
    config = tuning.lookup(operator, x.dtype, x.device, DEFAULTS, rows=rows, out_size=out_size, in_size=in_size)
    matrices = None
    if config["descriptors"] and weight is not None:
        matrices = _described(weight, [tile["OUTPUTS"], tile["DEPTH"]])
    return {**tile, "SHORT": config["short"] if config["short"] < tile["ROWS"] else 0}, launch, matrices


def _described(weight: torch.Tensor, block: list[int]) -> Any:
    """Weight [experts, outputs, inputs] as one matrix, `block` at a time; None where no descriptor can say that."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    experts, outputs, inputs = weight.shape
    if not weight.is_contiguous() or inputs * weight.element_size() % 16 or weight.data_ptr() % 16:
        return None
    return TensorDescriptor(weight, [experts * outputs, inputs], [inputs, 1], block)
