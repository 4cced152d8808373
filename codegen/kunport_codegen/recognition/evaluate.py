"""Evaluates small parts of a graph with numpy, to read from numbers what they compute.

Floating point is float64 throughout and casts between floating types are ignored: the question is which formula the
nodes compute, not how they round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import DType, Node, Ref

Array = NDArray[Any]
Floats = NDArray[np.float64]


class UnevaluableError(Exception):
    """A node that these rules do not cover."""


def evaluate(nodes: Mapping[int, Node], wanted: int, known: dict[int, Array]) -> Array:
    """The value of a tensor, given some values; ``known`` receives those computed on the way.

    Raises:
        UnevaluableError: an operator on the way has no rule, or does not take its operands.
    """
    pending = [wanted]
    while pending:
        current = pending[-1]
        if current in known:
            pending.pop()
            continue
        node = nodes.get(current)
        if node is None:
            raise UnevaluableError(f"%{current}")
        missing = [each for each in _operands(node.args, node.kwargs) if each not in known]
        if missing:
            pending.extend(missing)
            continue
        known[current] = _apply(node, known)
    return known[wanted]


def _operands(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int]:
    found: list[int] = []
    for arg in (*args, *kwargs.values()):
        if isinstance(arg, Ref):
            found.append(arg.id)
        elif isinstance(arg, list | tuple):
            found.extend(each.id for each in arg if isinstance(each, Ref))
    return found


def _apply(node: Node, known: Mapping[int, Array]) -> Array:
    rule = _RULES.get(node.op)
    if rule is None:
        raise UnevaluableError(node.op)
    args = [_plain(arg, known) for arg in node.args]
    kwargs = {name: _plain(arg, known) for name, arg in node.kwargs.items()}
    try:
        with np.errstate(all="ignore"):
            result: Array = rule(*args, **kwargs)
    except (TypeError, ValueError, IndexError) as error:
        raise UnevaluableError(f"{node.op}: {error}") from error
    return result


def _plain(arg: Any, known: Mapping[int, Array]) -> Any:
    if isinstance(arg, Ref):
        return known[arg.id]
    if isinstance(arg, list | tuple):
        return type(arg)(_plain(each, known) for each in arg)
    if isinstance(arg, slice):
        return slice(*(_plain(each, known) for each in (arg.start, arg.stop, arg.step)))
    return unwrap(arg)


def _arange(*bounds: float, dtype: Any = None, **_: Any) -> Array:
    return np.arange(*bounds)


def _cast(value: Array, dtype: Any = None, **_: Any) -> Array:
    """Casts to integers round towards zero; those to floating types only make the value one."""
    if not isinstance(dtype, DType):
        return value
    if dtype.name == "bool":
        return value.astype(bool)
    return value.astype(np.int64 if dtype.name.startswith(("int", "uint")) else np.float64)


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


def _shape(value: Array, *shape: Any) -> tuple[int, ...]:
    return tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape


def _expand(value: Array, *shape: Any) -> Array:
    wanted = _shape(value, *shape)
    padded = value.reshape((1,) * (len(wanted) - value.ndim) + value.shape)
    sizes = [have if want == -1 else want for want, have in zip(wanted, padded.shape, strict=True)]
    return np.broadcast_to(padded, sizes)


def _clamp(value: Array, *bounds: Any, **named: Any) -> Array:
    low, high = (*bounds, None, None)[:2]
    return np.clip(value, named.get("min", low), named.get("max", high))


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


_RULES: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: np.add(a, b),
    "sub": lambda a, b: np.subtract(a, b),
    "mul": lambda a, b: np.multiply(a, b),
    "div": lambda a, b: np.divide(a, b),
    "pow": lambda a, b: np.power(np.asarray(a, dtype=np.float64), b),
    "neg": lambda a: np.negative(a),
    "square": lambda a: np.square(a),
    "exp": lambda a: np.exp(a),
    "tanh": lambda a: np.tanh(a),
    "sigmoid": sigmoid,
    "erf": erf,
    "relu": lambda a, **_: np.maximum(a, 0),
    "silu": lambda a, **_: a * sigmoid(a),
    "gelu": gelu,
    "cos": lambda a: np.cos(a),
    "sin": lambda a: np.sin(a),
    "gt": lambda a, b: np.greater(a, b),
    "lt": lambda a, b: np.less(a, b),
    "ge": lambda a, b: np.greater_equal(a, b),
    "le": lambda a, b: np.less_equal(a, b),
    "bitwise_not": lambda a: np.invert(a),
    "bitwise_and": lambda a, b: np.bitwise_and(a, b),
    "where": lambda condition, a, b: np.where(condition, a, b),
    "clamp": _clamp,
    "arange": _arange,
    "tensor": lambda data, **_: np.asarray(data),
    "to": _cast,
    "cat": lambda tensors, dim=0: np.concatenate(tensors, axis=dim),
    "stack": lambda tensors, dim=0: np.stack(tensors, axis=dim),
    "chunk": _chunk,
    "split": _split,
    "item": lambda results, position: results[position],
    "getitem": _getitem,
    "unsqueeze": lambda value, dim: np.expand_dims(value, dim),
    "squeeze": lambda value, dim: np.squeeze(value, axis=dim),
    "transpose": lambda value, a, b: np.swapaxes(value, a, b),
    "permute": lambda value, *dims: np.transpose(value, _shape(value, *dims)),
    "reshape": lambda value, *shape: value.reshape(_shape(value, *shape)),
    "flatten": _flatten,
    "expand": _expand,
    "repeat_interleave": lambda value, repeats, dim=None: np.repeat(value, repeats, axis=dim),
    "matmul": lambda a, b: np.matmul(a, b),
}
