"""Tiles of matrix products, which products of all kinds share: their order, who owns them, the loop, and the end.

A product here is ``x @ weight.T``: both have rows of `in_size` elements side by side, so that both tiles are read along
rows. Rows and outputs beyond the end are read as the last one again and not stored, which needs no mask in the loop.
"""

import torch
import triton
import triton.language as tl

from kunport_runtime.providers.triton import tuning

# `rows`, `outputs`: of the result that a program makes; `depth`: of the sums that it takes a step; `band`: tiles of
# rows that run side by side, so that a tile of the weight is read once for all of them.
DEFAULTS: tuning.Config = {"rows": 64, "outputs": 128, "depth": 64, "band": 8, "warps": 4, "stages": 3}
DEFAULTS_8_BITS = DEFAULTS | {"depth": 128}


@triton.jit
def spread(number, row_tiles, output_tiles, BAND: tl.constexpr):
    """The tile of rows and the tile of outputs of a program: band by band, in a band down its rows and then across."""
    first = number // (BAND * output_tiles) * BAND
    height = tl.minimum(row_tiles - first, BAND)
    within = number % (BAND * output_tiles)
    return first + within % height, within // height


@triton.jit
def owner(starts, groups, number, ROWS: tl.constexpr, TIMES: tl.constexpr):
    """Whose the tile of that number is, where its group starts and ends, and where the tile itself begins.

    Group g has the rows TIMES * starts[g] up to TIMES * starts[g + 1]; its tiles have the numbers from its
    start // ROWS + g on, so that rows // ROWS + groups tiles are enough whatever the groups are, and no host has to
    know them. A tile that begins outside its group is nobody's.
    """
    low = 0
    high = groups - 1
    while low < high:
        middle = (low + high + 1) // 2
        if TIMES * tl.load(starts + middle) // ROWS + middle <= number:
            low = middle
        else:
            high = middle - 1
    first = TIMES * tl.load(starts + low)
    end = TIMES * tl.load(starts + low + 1)
    return low, first, end, first + (number - first // ROWS - low) * ROWS


@triton.jit
def owner_of_few(starts, groups, number, ROWS: tl.constexpr, GROUPS_PAD: tl.constexpr):
    """`owner` by looking at all groups at once, which waits for two loads where a bisection waits for one a halving."""
    group = tl.arange(0, GROUPS_PAD)
    tile = tl.load(starts + group, mask=group < groups, other=0) // ROWS + group
    low = tl.maximum(tl.sum(((tile <= number) & (group < groups)).to(tl.int32), 0) - 1, 0)
    first = tl.load(starts + low)
    end = tl.load(starts + low + 1)
    return low, first, end, first + (number - first // ROWS - low) * ROWS


@triton.jit
def along(matrix, number, count, stride):
    """Pointers to the first element of rows, those beyond `count` rows to that of the last."""
    return matrix + tl.minimum(number, count - 1).to(tl.int64) * stride


@triton.jit
def product(x, weight, in_size, total, DEPTH: tl.constexpr, EVEN: tl.constexpr):
    """Total [ROWS, OUTPUTS] + X W', of pointers to rows x [ROWS] and weight [OUTPUTS]; EVEN: DEPTH divides in_size."""
    for start in range(0, in_size, DEPTH):
        column = start + tl.arange(0, DEPTH)
        a, b = step(x, weight, column, in_size, EVEN)
        total = tl.dot(a, b, total, input_precision="ieee", out_dtype=total.dtype)
    return total


@triton.jit
def step(x, weight, column, end, EVEN: tl.constexpr):
    """Columns of rows x [ROWS, DEPTH] and of weight, turned [DEPTH, OUTPUTS]; zeros from `end` on."""
    a = columns(x, column, end, EVEN)
    if EVEN:
        b = tl.load(weight[None, :] + column[:, None])
    else:
        b = tl.load(weight[None, :] + column[:, None], mask=(column < end)[:, None], other=0.0)
    return a, b


@triton.jit
def columns(x, column, end, EVEN: tl.constexpr):
    """Columns of rows x [ROWS, DEPTH]; zeros from `end` on, which is none of them where EVEN."""
    if EVEN:
        a = tl.load(x[:, None] + column[None, :])
    else:
        a = tl.load(x[:, None] + column[None, :], mask=(column < end)[None, :], other=0.0)
    return a


@triton.jit
def finish(out, total, bias, row, end, output, out_size, out_stride):
    """Add the bias, where there is one, and store the rows before `end`, rounded."""
    if bias is not None:
        total += tl.load(bias + output, mask=output < out_size, other=0.0).to(tl.float32)[None, :]
    inside = (row < end)[:, None] & (output < out_size)[None, :]
    place = row.to(tl.int64)[:, None] * out_stride + output[None, :]
    tl.store(out + place, total.to(out.dtype.element_ty), mask=inside)


def fitted(
    operator: str, dtype: torch.dtype, device: torch.device, rows: int, out_size: int, in_size: int
) -> tuple[dict[str, int], dict[str, int]]:
    """Constants of an operator's kernel, and its warps and stages: what is tuned, cut to what there is."""
    defaults = DEFAULTS_8_BITS if dtype.itemsize == 1 else DEFAULTS
    config = tuning.lookup(operator, dtype, device, defaults, rows=rows, out_size=out_size, in_size=in_size)
    constants = {
        "ROWS": min(config["rows"], _power(rows, 16)),
        "OUTPUTS": min(config["outputs"], _power(out_size, 16)),
        "DEPTH": min(config["depth"], _power(in_size, 32)),
        "BAND": config["band"],
    }
    return constants, {"num_warps": config["warps"], "num_stages": config["stages"]}


def _power(size: int, least: int) -> int:
    """The power of two that holds a size; matrix units want at least so much."""
    return max(least, int(triton.next_power_of_2(size)))
