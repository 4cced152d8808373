"""Operators that multiply and sum: matrix products and what is made of them.

Operands of a product have one dtype in torch; where ``model`` meets float32 the result is given as float32.
"""

from __future__ import annotations

from typing import Any

from . import dtypes, sizes
from .elementwise import broadcast
from .registry import rule
from .tensor import ShapeError, Size, TensorType


def _inner(a: Size, b: Size) -> None:
    if not sizes.same(a, b):
        raise ShapeError(f"inner sizes {a} and {b} differ")


@rule("matmul mm bmm mv dot")
def matmul(x: TensorType, other: TensorType) -> TensorType:
    if not x.shape or not other.shape:
        raise ShapeError("both operands of a product need a dimension")
    dtype = dtypes.result_type((x, other))
    left = x.shape if x.rank > 1 else (1, *x.shape)
    right = other.shape if other.rank > 1 else (*other.shape, 1)
    _inner(left[-1], right[-2])
    rows = (left[-2],) if x.rank > 1 else ()
    columns = (right[-1],) if other.rank > 1 else ()
    return TensorType((*broadcast(left[:-2], right[:-2]), *rows, *columns), dtype)


@rule("outer")
def outer(x: TensorType, vec2: TensorType) -> TensorType:
    return TensorType((*x.shape, *vec2.shape), dtypes.result_type((x, vec2)))


@rule("addmm baddbmm")
def addmm(x: TensorType, mat1: TensorType, mat2: TensorType, *, beta: Any = 1, alpha: Any = 1) -> TensorType:
    product = matmul(mat1, mat2)
    return TensorType(broadcast(x.shape, product.shape), dtypes.result_type((x, product)))


@rule("linear")
def linear(x: TensorType, weight: TensorType, bias: TensorType | None = None) -> TensorType:
    """``x`` ``[..., in]``, ``weight`` ``[out, in]`` or ``[in]``."""
    _inner(x.shape[-1], weight.shape[-1])
    return TensorType((*x.shape[:-1], *weight.shape[:-1]), dtypes.result_type((x, weight)))


@rule("einsum")
def einsum(equation: str, *operands: Any) -> TensorType:
    held: list[TensorType] = list(sizes.flat(operands))
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(held):
        raise ShapeError(f"{equation} names {len(terms)} operands, there are {len(held)}")
    found: dict[str, list[Size]] = {}
    batches = [_read_term(term, tensor, found) for term, tensor in zip(terms, held, strict=True)]
    batch = broadcast(*batches)
    if not arrow:
        text = left.replace("...", "").replace(",", "")
        right = ("..." if batch else "") + "".join(sorted(name for name in set(text) if text.count(name) == 1))
    known = {name: broadcast(*((size,) for size in column))[0] for name, column in found.items()}
    shape: list[Size] = []
    for name in right.replace("...", "."):
        shape += batch if name == "." else (known[name],)
    return TensorType(tuple(shape), dtypes.result_type(held))


def _read_term(term: str, tensor: TensorType, found: dict[str, list[Size]]) -> tuple[Size, ...]:
    """Notes the size of each letter; gives the sizes that the ellipsis stands for."""
    names = term.replace("...", ".")
    covered = tensor.rank - len(names.replace(".", ""))
    if covered < 0 or (covered > 0 and "." not in names):
        raise ShapeError(f"{term} does not name the dimensions of a tensor of {tensor.rank}")
    place = 0
    batch: tuple[Size, ...] = ()
    for name in names:
        if name == ".":
            batch = tensor.shape[place : place + covered]
            place += covered
        else:
            found.setdefault(name, []).append(tensor.shape[place])
            place += 1
    return batch


@rule("tensordot")
def tensordot(a: TensorType, b: TensorType, dims: Any = 2) -> TensorType:
    count = dims if isinstance(dims, int) else None
    first = tuple(range(a.rank - count, a.rank)) if count is not None else sizes.axes(dims[0], a.rank)
    second = tuple(range(count)) if count is not None else sizes.axes(dims[1], b.rank)
    rest = [size for place, size in enumerate(a.shape) if place not in first]
    rest += [size for place, size in enumerate(b.shape) if place not in second]
    return TensorType(tuple(rest), dtypes.result_type((a, b)))


@rule("conv1d")
def conv1d(
    x: TensorType,
    weight: TensorType,
    bias: TensorType | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: Any = 1,
) -> TensorType:
    """``x`` ``[batch, in, length]`` or ``[in, length]``, ``weight`` ``[out, in / groups, kernel]``."""
    _inner(x.shape[-2], sizes.product((weight.shape[1], sizes.as_size(groups))))
    step, spread = _single(stride), _single(dilation)
    reach = sizes.product((spread, sizes.subtract(weight.shape[2], 1)))
    if padding == "same":
        length = x.shape[-1]
    else:
        border = 0 if padding == "valid" else _single(padding)
        free = sizes.subtract(sizes.add(x.shape[-1], sizes.product((2, border))), reach)
        length = free if step == 1 else sizes.add(sizes.quotient(sizes.subtract(free, 1), step), 1)
    return TensorType((*x.shape[:-2], weight.shape[0], length), dtypes.result_type((x, weight)))


def _single(setting: Any) -> Size:
    return sizes.as_size(setting[0] if isinstance(setting, tuple | list) else setting)


@rule("scaled_dot_product_attention")
def scaled_dot_product_attention(
    query: TensorType, key: TensorType, value: TensorType, attn_mask: TensorType | None = None, *rest: Any, **named: Any
) -> TensorType:
    """``query`` ``[..., queries, width]``, ``key`` and ``value`` ``[..., keys, width]``."""
    _inner(query.shape[-1], key.shape[-1])
    _inner(key.shape[-2], value.shape[-2])
    return TensorType((*query.shape[:-1], value.shape[-1]), query.dtype)


@rule("solve_triangular")
def solve_triangular(x: TensorType, other: TensorType, *, upper: bool, left: bool = True, **named: Any) -> TensorType:
    shape = (*broadcast(x.shape[:-2], other.shape[:-2]), *other.shape[-2:])
    return TensorType(shape, dtypes.result_type((x, other)))
