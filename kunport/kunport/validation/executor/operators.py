"""Which torch function runs an operator of the graph."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from kunport.analysis.shapes import canonical
from kunport.errors import KunportError

Function = Callable[..., Any]

# Python's operators where the source may have a number on the left, which torch's functions refuse.
_PYTHON: dict[str, Function] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "pow": operator.pow,
    "matmul": operator.matmul,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
}


def _setitem(tensor: torch.Tensor, index: Any, value: Any) -> torch.Tensor:
    result = tensor.clone()
    result[index] = value
    return result


def _copy(tensor: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return tensor.clone().copy_(source)


def _to(tensor: torch.Tensor, *targets: Any, dtype: torch.dtype | None = None, **options: Any) -> torch.Tensor:
    """A cast; devices that the source names do not count, the graph runs where its inputs lie."""
    for target in targets:
        if isinstance(target, torch.Tensor):
            dtype = target.dtype
        elif isinstance(target, torch.dtype):
            dtype = target
    return tensor if dtype is None else tensor.to(dtype)


def _tensor(data: Any, **options: Any) -> torch.Tensor:
    return torch.as_tensor(data, **options)


def _split(tensor: torch.Tensor, split_size: Any, dim: int = 0) -> tuple[torch.Tensor, ...]:
    """Pieces of one size, or of several, which may be numbers that only the data told."""
    several = isinstance(split_size, list | tuple)
    return torch.split(tensor, [int(size) for size in split_size] if several else int(split_size), dim)


def _joining(function: Function) -> Function:
    """A function of several tensors that also takes one whose rows they are."""
    return lambda tensors, dim=0: function(list(tensors), dim)


def _attribute(name: str) -> Function:
    return lambda tensor: getattr(tensor, name)


# Operators whose name finds another function, or none, where the others are looked up.
_SPECIAL: dict[str, Function] = {
    "getitem": operator.getitem,
    "setitem": _setitem,
    "copy": _copy,
    "fill": torch.full_like,
    "stack": _joining(torch.stack),
    "cat": _joining(torch.cat),
    "split": _split,
    "split_with_sizes": _split,
    "to": _to,
    "type": _to,
    "where": torch.where,
    "tensor": _tensor,
    "unfold": torch.Tensor.unfold,
    "solve_triangular": torch.linalg.solve_triangular,
    "vector_norm": torch.linalg.vector_norm,
    **{name: _attribute(name) for name in ("T", "mT", "H", "mH", "real", "imag")},
    **dict.fromkeys(("cpu", "cuda"), _to),
}
# Operators that make a tensor from numbers and must be told where.
_CREATE = frozenset(("arange", "empty", "eye", "full", "linspace", "ones", "rand", "randn", "tensor", "zeros"))


@functools.cache
def function_of(op: str) -> Function:
    """The function for an operator: its own, one of torch.nn.functional, a method of tensors, or one of torch.

    An operator written in place works on a copy, as the graph is functional.
    """
    name = canonical(op)
    if op.endswith("_") and hasattr(torch.Tensor, op):
        method = getattr(torch.Tensor, op)
        return lambda tensor, *args, **kwargs: method(tensor.clone(), *args, **kwargs)
    if name in _SPECIAL:
        return _SPECIAL[name]
    for room in (functional, torch.Tensor, torch):
        found = getattr(room, name, None)
        if callable(found):
            return found if name not in _PYTHON else _python_or(found, _PYTHON[name])
    raise KunportError(f"The executor has no torch function for the operator {op}.", "Report the model's name.")


def _python_or(function: Function, infix: Function) -> Function:
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs) if kwargs else infix(*args)

    return call


def call(op: str, args: tuple[Any, ...], kwargs: dict[str, Any], device: torch.device) -> Any:
    """Runs an operator on values; devices among its named arguments give way to ``device``."""
    named = {name: value for name, value in kwargs.items() if name != "device"}
    if canonical(op) in _CREATE:
        named["device"] = device
    return function_of(op)(*args, **named)
