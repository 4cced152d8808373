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
def softmax(x: TensorType, dim: Any = None, dtype: DType | None = None) -> TensorType:
    if dim is not None:
        sizes.axis(dim, x.rank)
    return TensorType(x.shape, dtype or x.dtype)


@rule("layer_norm rms_norm")
def layer_norm(x: TensorType, normalized_shape: Any, *settings: Any, **named: Any) -> TensorType:
    """Scaled over the last dimensions, which ``normalized_shape`` repeats."""
    last = [
        sizes.value(size)
        for size in (normalized_shape if isinstance(normalized_shape, tuple | list) else [normalized_shape])
    ]
    if last != [sizes.value(size) for size in x.shape[-len(last) :]]:
        raise ShapeError(f"a tensor of shape {x.shape} does not end in {last}")
    return x


@rule("group_norm")
def group_norm(x: TensorType, num_groups: Any, *settings: Any, **named: Any) -> TensorType:
    if x.rank < 2 or sizes.value(x.shape[1]) % sizes.value(num_groups):
        raise ShapeError(f"a tensor of shape {x.shape} has no {num_groups} groups")
    return x


@rule("normalize")
def normalize(x: TensorType, p: Any = 2.0, dim: Any = 1, eps: Any = 1e-12) -> TensorType:
    sizes.axis(dim, x.rank)
    return x


@rule("glu")
def glu(x: TensorType, dim: Any = -1) -> TensorType:
    where = sizes.axis(dim, x.rank)
    return TensorType(sizes.replaced(x.shape, where, sizes.quotient(x.shape[where], 2)), x.dtype)


@rule("cosine_similarity")
def cosine_similarity(x1: TensorType, x2: TensorType, dim: Any = 1, eps: Any = 1e-8) -> TensorType:
    shape = broadcast(x1.shape, x2.shape)
    return TensorType(reduced(shape, sizes.axis(dim, len(shape)), False), dtypes.result_type((x1, x2)))
