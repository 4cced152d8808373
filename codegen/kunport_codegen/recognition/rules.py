"""What single operators compute, in numpy: floating point is float64 throughout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kunport_codegen.graph import DType

from .elementwise import SELU, SELU_ALPHA, elu, erf, gelu, hardswish, leaky_relu, mish, sigmoid, softmax, softplus

Array = NDArray[Any]


def _arange(*bounds: float, dtype: Any = None, **_: Any) -> Array:
    return np.arange(*bounds)


def _cast(value: Array, dtype: Any = None, **_: Any) -> Array:
    """Casts to integers round towards zero; those to floating types only make the value one."""
    if not isinstance(dtype, DType):
        return value
    if dtype.name == "bool":
        return value.astype(bool)
    return value.astype(np.int64 if dtype.name.startswith(("int", "uint")) else np.float64)


def _type(how: dict[str, Any]) -> Any:
    """A boolean tensor stays one."""
    return bool if how.get("dtype") == DType("bool") else np.float64


def _div(a: Array, b: Array, rounding_mode: str | None = None) -> Array:
    if rounding_mode is None:
        return np.divide(a, b)
    return np.floor_divide(a, b) if rounding_mode == "floor" else np.trunc(np.divide(a, b))


def _getitem(value: Array, index: Any) -> Array:
    return np.asarray(value[tuple(index) if isinstance(index, list) else index])


def _chunk(value: Array, chunks: int, dim: int = 0) -> list[Array]:
    size = -(-value.shape[dim] // chunks)
    return _split(value, size, dim)


def _split(value: Array, size: int | list[int] | tuple[int, ...], dim: int = 0) -> list[Array]:
    total = value.shape[dim]
    ends = np.cumsum(size) if isinstance(size, list | tuple) else np.arange(size, total + size, size)
    return np.split(value, ends[:-1], axis=dim)


def _flatten(value: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    start, end = start_dim % value.ndim, end_dim % value.ndim
    return value.reshape(*value.shape[:start], -1, *value.shape[end + 1 :])


def _shape(_: Any, *shape: Any) -> tuple[int, ...]:
    return tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape


def _expand(value: Array, *shape: Any) -> Array:
    wanted = _shape(value, *shape)
    padded = value.reshape((1,) * (len(wanted) - value.ndim) + value.shape)
    sizes = [have if want == -1 else want for want, have in zip(wanted, padded.shape, strict=True)]
    return np.broadcast_to(padded, sizes)


def _clamp(value: Array, *bounds: Any, **named: Any) -> Array:
    low, high = (*bounds, None, None)[:2]
    return np.clip(value, named.get("min", low), named.get("max", high))


def _along(dim: Any) -> Any:
    return tuple(dim) if isinstance(dim, list | tuple) else dim


def _reduced(reduce: Callable[..., Any]) -> Callable[..., Any]:
    return lambda value, dim=None, keepdim=False, **_: reduce(value, axis=_along(dim), keepdims=keepdim)


def _topk(value: Array, count: int, dim: int = -1, largest: bool = True, **_: Any) -> list[Array]:
    order = np.argsort(-value if largest else value, axis=dim, kind="stable")
    best = np.take(order, np.arange(count), axis=dim)
    return [np.take_along_axis(value, best, axis=dim), best]


def _max(value: Array, dim: int | None = None, keepdim: bool = False) -> Any:
    if dim is None:
        return np.max(value)
    where = np.argmax(value, axis=dim, keepdims=True)
    results = [np.take_along_axis(value, where, axis=dim), where]
    return results if keepdim else [np.squeeze(each, axis=dim) for each in results]


def _scatter(value: Array, dim: int, index: Array, source: Any) -> Array:
    """The index may be shorter than the value along other dimensions: then only their first places are written."""
    result = np.array(value)
    if index.size:
        places = list(np.indices(index.shape))
        places[dim] = index
        shaped = np.shape(source) == ()
        result[tuple(places)] = source if shaped else source[tuple(slice(size) for size in index.shape)]
    return result


def _where(condition: Array, *values: Any) -> Any:
    return np.where(condition, *values) if values else list(np.nonzero(condition))


def _one_hot(value: Array, num_classes: int) -> Array:
    return np.eye(num_classes, dtype=np.int64)[value]


def _index_add(value: Array, dim: int, index: Array, source: Array, **_: Any) -> Array:
    result = np.array(value)
    np.add.at(np.moveaxis(result, dim, 0), index, np.moveaxis(source, dim, 0))
    return result


def _setitem(value: Array, index: Any, new: Any) -> Array:
    result = np.array(value)
    result[tuple(index) if isinstance(index, list) else index] = new
    return result


def _pad(tensor: Array, sizes: Any, mode: str = "constant", **how: Any) -> Array:
    """Sizes are given from the last dimension on; negative ones cut."""
    if mode != "constant":
        raise ValueError(mode)
    pairs = [(int(before), int(after)) for before, after in zip(sizes[::2], sizes[1::2], strict=True)][::-1]
    pairs = [(0, 0)] * (tensor.ndim - len(pairs)) + pairs
    added = [(max(before, 0), max(after, 0)) for before, after in pairs]
    result = np.pad(tensor, added, constant_values=how.get("value") or 0)
    return result[
        tuple(
            slice(max(-before, 0), size - max(-after, 0))
            for size, (before, after) in zip(result.shape, pairs, strict=True)
        )
    ]


def _solve_triangular(
    matrix: Array, right: Array, upper: bool, left: bool = True, unitriangular: bool = False
) -> Array:
    """Only the triangle that counts is read."""
    if not left:
        raise ValueError("the unknown stands on the left")
    triangle = np.triu(matrix) if upper else np.tril(matrix)
    if unitriangular:
        triangle = triangle - triangle * np.eye(matrix.shape[-1]) + np.eye(matrix.shape[-1])
    return np.linalg.solve(triangle, right)


RULES: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: np.add(a, b),
    "sub": lambda a, b: np.subtract(a, b),
    "mul": lambda a, b: np.multiply(a, b),
    "div": _div,
    "floor_divide": lambda a, b: np.floor_divide(a, b),
    "remainder": lambda a, b: np.mod(a, b),
    "pow": lambda a, b: np.power(np.asarray(a, dtype=np.float64), b),
    "neg": lambda a: np.negative(a),
    "square": lambda a: np.square(a),
    "exp": lambda a: np.exp(a),
    "exp2": lambda a: np.exp2(a),
    "tanh": lambda a: np.tanh(a),
    "sigmoid": sigmoid,
    "erf": erf,
    "relu": lambda a, **_: np.maximum(a, 0),
    "silu": lambda a, **_: a * sigmoid(a),
    "gelu": gelu,
    "mish": lambda a, **_: mish(a),
    "elu": lambda a, *alpha, **_: elu(a, *alpha),
    "selu": lambda a, **_: SELU * elu(a, SELU_ALPHA),
    "leaky_relu": lambda a, *slope, **how: leaky_relu(a, *slope, **how),
    "hardswish": lambda a, **_: hardswish(a),
    "cos": lambda a: np.cos(a),
    "sin": lambda a: np.sin(a),
    "gt": lambda a, b: np.greater(a, b),
    "lt": lambda a, b: np.less(a, b),
    "ge": lambda a, b: np.greater_equal(a, b),
    "le": lambda a, b: np.less_equal(a, b),
    "bitwise_not": lambda a: np.invert(a),
    "bitwise_and": lambda a, b: np.bitwise_and(a, b),
    "logical_and": lambda a, b: np.logical_and(a, b),
    "logical_or": lambda a, b: np.logical_or(a, b),
    "logical_not": lambda a: np.logical_not(a),
    "where": _where,
    "nonzero": lambda value, as_tuple=False: list(np.nonzero(value)) if as_tuple else np.argwhere(value),
    "any": _reduced(np.any),
    "one_hot": _one_hot,
    "index_add": _index_add,
    "clamp": _clamp,
    "arange": _arange,
    "linspace": lambda start, end, steps, **_: np.linspace(start, end, steps),
    "tensor": lambda data, **_: np.asarray(data),
    "to": _cast,
    "cat": lambda tensors, dim=0: np.concatenate(tensors, axis=dim),
    "stack": lambda tensors, dim=0: np.stack(tensors, axis=dim),
    "hstack": lambda tensors: np.hstack(tensors),
    "chunk": _chunk,
    "split": _split,
    "tensor_split": lambda value, parts, dim=0: np.array_split(value, parts, axis=dim),
    "unbind": lambda value, dim=0: list(np.moveaxis(value, dim, 0)),
    "item": lambda results, position: results[position],
    "getitem": _getitem,
    "unsqueeze": lambda value, dim: np.expand_dims(value, dim),
    "squeeze": lambda value, dim=None: np.squeeze(value, axis=_along(dim)),
    "transpose": lambda value, a, b: np.swapaxes(value, a, b),
    "permute": lambda value, *dims: np.transpose(value, _shape(value, *dims)),
    "reshape": lambda value, *shape: value.reshape(_shape(value, *shape)),
    "flatten": _flatten,
    "expand": _expand,
    "broadcast_to": _expand,
    "repeat": lambda value, *times: np.tile(value, _shape(value, *times)),
    "einsum": lambda formula, *operands: np.einsum(formula, *operands),
    "outer": lambda a, b: np.outer(a, b),
    "polar": lambda length, angle: length * np.exp(1j * angle),
    "view_as_complex": lambda value: value[..., 0] + 1j * value[..., 1],
    "view_as_real": lambda value: np.stack((value.real, value.imag), axis=-1),
    "reciprocal": lambda a: 1 / a,
    "repeat_interleave": lambda value, repeats, dim=None, **_: np.repeat(value, repeats, axis=dim),
    "matmul": lambda a, b: np.matmul(a, b),
    "linear": lambda x, weight, bias=None: x @ np.swapaxes(weight, -1, -2) + (0 if bias is None else bias),
    "sum": _reduced(np.sum),
    "mean": _reduced(np.mean),
    "amax": _reduced(np.max),
    "max": _max,
    "maximum": lambda a, b: np.maximum(a, b),
    "minimum": lambda a, b: np.minimum(a, b),
    "cumsum": lambda value, dim: np.cumsum(value, axis=dim),
    "tril": lambda value, diagonal=0: np.tril(value, diagonal),
    "triu": lambda value, diagonal=0: np.triu(value, diagonal),
    "bitwise_xor": lambda a, b: np.bitwise_xor(a, b),
    "softmax": softmax,
    "softplus": softplus,
    "log": lambda a: np.log(a),
    "sqrt": lambda a: np.sqrt(a),
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "abs": lambda a: np.abs(a),
    "floor": lambda a: np.floor(a),
    "topk": _topk,
    "gather": lambda value, dim, index: np.take_along_axis(value, index, axis=dim),
    "scatter": _scatter,
    "setitem": _setitem,
    "masked_fill": lambda value, mask, fill: np.where(mask, fill, value),
    "zeros": lambda *shape, **how: np.zeros(_shape(None, *shape), _type(how)),
    "ones": lambda *shape, **how: np.ones(_shape(None, *shape), _type(how)),
    "empty": lambda *shape, **_: np.zeros(_shape(None, *shape)),
    "zeros_like": lambda value, **_: np.zeros(value.shape),
    "empty_like": lambda value, **_: np.zeros(value.shape),
    "ones_like": lambda value, **_: np.ones(value.shape),
    "full": lambda shape, fill, **_: np.full(_shape(None, shape), fill),
    "full_like": lambda value, fill, **_: np.full(value.shape, fill),
    "eq": lambda a, b: np.equal(a, b),
    "ne": lambda a, b: np.not_equal(a, b),
    "bitwise_or": lambda a, b: np.bitwise_or(a, b),
    "eye": lambda rows, columns=None, **_: np.eye(rows, columns),
    "pad": _pad,
    "var": lambda value, dim=None, keepdim=False, correction=1, **_: np.var(
        value, axis=_along(dim), keepdims=keepdim, ddof=correction
    ),
    "logsigmoid": lambda a: -softplus(-a),
    "expm1": lambda a: np.expm1(a),
    "baddbmm": lambda added, a, b, **_: added + np.matmul(a, b),
    "solve_triangular": _solve_triangular,
    "unflatten": lambda value, dim, sizes: _unflatten(value, dim, sizes),
}


def _unflatten(value: Array, dim: int, sizes: Any) -> Array:
    dim %= value.ndim
    return value.reshape(*value.shape[:dim], *sizes, *value.shape[dim + 1 :])
