"""What kernels that work row by row share: which rows and columns a program has, and loads without needless masks."""

import triton
import triton.language as tl

from kunport_runtime.providers.triton import tuning

# `elements`: about how many elements of rows a program takes; at least one row.
DEFAULTS: tuning.Config = {"elements": 4096, "warps": 4}


@triton.jit
def load(pointers, inside, EXACT: tl.constexpr):
    """As float32, zeros outside; EXACT: there is no outside, and no mask in the way of wide loads."""
    if EXACT:
        values = tl.load(pointers)
    else:
        values = tl.load(pointers, mask=inside, other=0.0)
    return values.to(tl.float32)


@triton.jit
def store(pointers, values, inside, EXACT: tl.constexpr):
    """Rounded to the dtype pointed to."""
    if EXACT:
        tl.store(pointers, values.to(pointers.dtype.element_ty))
    else:
        tl.store(pointers, values.to(pointers.dtype.element_ty), mask=inside)


def constants(rows: int, size: int, config: tuning.Config) -> dict[str, int | bool]:
    """ROWS a program, SIZE and its power of two, and whether programs cover rows x size EXACTly."""
    size_pad = triton.next_power_of_2(size)
    block = max(1, triton.next_power_of_2(config["elements"]) // size_pad)
    return {"ROWS": block, "SIZE": size, "SIZE_PAD": size_pad, "EXACT": size == size_pad and rows % block == 0}
