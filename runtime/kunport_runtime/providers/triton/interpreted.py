"""Mends Triton's interpreter, which is wrong about 16- and 8-bit floats: kernels can be checked without a device.

Two faults, in Triton 3.6 to 3.9: it rounds to bfloat16 by cutting bits off (and to 8 bits without carrying over), and
it multiplies matrices of bfloat16 as if their bits were integers. Devices do neither. To be removed when the oldest
Triton supported does them right; `tests/runtime/triton/test_triton_interpreter.py` notices.
"""

from typing import Any

import numpy
import torch
import triton.language as tl
from triton.runtime import interpreter

_DTYPES = {
    tl.float32: torch.float32,
    tl.float16: torch.float16,
    tl.bfloat16: torch.bfloat16,
    tl.float8e4nv: torch.float8_e4m3fn,
    tl.float8e5: torch.float8_e5m2,
}
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}


def mend() -> None:
    """Replace the two functions; a second call changes nothing."""
    interpreter._convert_float = _convert
    interpreter.InterpreterBuilder.create_dot = _dot


def _convert(data: Any, source: Any, target: Any, rounding_mode: Any) -> Any:
    """Bits of `source` to bits of `target`, to nearest and even (Triton's default) or towards zero."""
    if source not in _DTYPES or target not in _DTYPES or rounding_mode == interpreter._ir.ROUNDING_MODE.RTZ:
        return _original_convert(data, source, target, rounding_mode)
    bits = torch.from_numpy(numpy.array(data, copy=True, order="C"))
    flat = bits.reshape(-1).view(_DTYPES[source]).to(_DTYPES[target])
    unsigned = numpy.dtype(f"uint{target.primitive_bitwidth}")
    return flat.view(_BITS[flat.element_size()]).numpy().view(unsigned).reshape(data.shape)


def _dot(builder: Any, a: Any, b: Any, accumulator: Any, precision: Any, imprecise: Any) -> Any:
    """The product of two matrices, added up in the accumulator's dtype."""

    def wide(handle: Any) -> Any:
        scalar = handle.dtype.scalar
        if scalar == tl.float32 or scalar not in _DTYPES:
            return handle.data
        return _convert(handle.data, scalar, tl.float32, None).view(numpy.float32)

    product = numpy.matmul(wide(a), wide(b), dtype=accumulator.data.dtype)
    return interpreter.TensorHandle(product + accumulator.data, accumulator.dtype.scalar)


_original_convert = interpreter._convert_float
