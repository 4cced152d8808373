"""Operators that scale elements by what their neighbours are."""

from __future__ import annotations

from typing import Any

from kunport_codegen.graph import DType

from . import dtypes, sizes
from .elementwise import broadcast
from .reductions import reduced
from .registry import rule
from .tensor import ShapeError, TensorType


@rule("softmax log_softmax softmin")
def softmax(input: TensorType, dim: Any = None, dtype: DType | None = None) -> TensorType:
    if dim is not None:
        sizes.axis(dim, input.rank)
    return TensorType(input.shape, dtype or input.dtype)


@rule("layer_norm rms_norm")
def layer_norm(input: TensorType, normalized_shape: Any, *settings: Any, **named: Any) -> TensorType:
    """Scaled over the last dimensions, which ``normalized_shape`` repeats."""
    last = [
        sizes.value(size)
        for size in (normalized_shape if isinstance(normalized_shape, tuple | list) else [normalized_shape])
    ]
    if last != [sizes.value(size) for size in input.shape[-len(last) :]]:
        raise ShapeError(f"a tensor of shape {input.shape} does not end in {last}")
    return input


@rule("group_norm")
def group_norm(input: TensorType, num_groups: Any, *settings: Any, **named: Any) -> TensorType:
    if input.rank < 2 or sizes.value(input.shape[1]) % sizes.value(num_groups):
        raise ShapeError(f"a tensor of shape {input.shape} has no {num_groups} groups")
    return input


@rule("normalize")
def normalize(input: TensorType, p: Any = 2.0, dim: Any = 1, eps: Any = 1e-12) -> TensorType:
    sizes.axis(dim, input.rank)
    return input


@rule("glu")
def glu(input: TensorType, dim: Any = -1) -> TensorType:
    where = sizes.axis(dim, input.rank)
    return TensorType(sizes.replaced(input.shape, where, sizes.quotient(input.shape[where], 2)), input.dtype)


@rule("cosine_similarity")
def cosine_similarity(x1: TensorType, x2: TensorType, dim: Any = 1, eps: Any = 1e-8) -> TensorType:
    shape = broadcast(x1.shape, x2.shape)
    return TensorType(reduced(shape, sizes.axis(dim, len(shape)), False), dtypes.result_type((x1, x2)))
