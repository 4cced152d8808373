"""Operators that work element by element: the shapes broadcast, the dtypes promote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kunport_codegen.graph import DType

from . import dtypes, sizes
from .registry import rule
from .tensor import ShapeError, Size, TensorType


def broadcast(*shapes: tuple[Size, ...]) -> tuple[Size, ...]:
    """The common shape of tensors that meet element by element."""
    if all(shape == shapes[0] for shape in shapes):
        return shapes[0] if shapes else ()
    rank = max(map(len, shapes))
    aligned = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(_common(column) for column in zip(*aligned, strict=True))


def _common(column: Sequence[Size]) -> Size:
    wide = [size for size in column if sizes.value(size) != 1]
    if any(not sizes.same(size, wide[0]) for size in wide):
        raise ShapeError(f"sizes {', '.join(map(str, wide))} do not broadcast")
    return sizes.simplest(wide or column)


def tensors(operands: Sequence[Any]) -> list[TensorType]:
    return [operand for operand in operands if isinstance(operand, TensorType)]


def _meet(operands: Sequence[Any], finish: Callable[[DType], DType] = lambda dtype: dtype) -> TensorType:
    shape = broadcast(*(tensor.shape for tensor in tensors(operands)))
    return TensorType(shape, finish(dtypes.result_type(operands)))


def _boolean(dtype: DType) -> DType:
    return dtypes.BOOL


@rule("add sub mul maximum minimum remainder fmod floor_divide bitwise_and bitwise_or bitwise_xor bitwise_left_shift")
@rule("bitwise_right_shift fmax fmin")
def promoting(x: Any, other: Any, alpha: Any = 1) -> TensorType:
    return _meet((x, other))


@rule("div")
def div(x: Any, other: Any, rounding_mode: str | None = None) -> TensorType:
    return _meet((x, other), dtypes.floating if rounding_mode is None else lambda dtype: dtype)


@rule("pow")
def power(x: Any, exponent: Any) -> TensorType:
    return _meet((x, exponent))


@rule("atan2 xlogy hypot logaddexp")
def floating_binary(x: Any, other: Any) -> TensorType:
    return _meet((x, other), dtypes.floating)


@rule("eq ne lt le gt ge logical_and logical_or logical_xor isclose")
def comparison(x: Any, other: Any, **tolerances: Any) -> TensorType:
    return _meet((x, other), _boolean)


@rule("isnan isinf isfinite logical_not")
def predicate(x: TensorType) -> TensorType:
    return TensorType(x.shape, dtypes.BOOL)


@rule("isin")
def isin(x: TensorType, test_elements: Any, **options: Any) -> TensorType:
    return TensorType(x.shape, dtypes.BOOL)


@rule("exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh")
@rule("sigmoid erf erfc erfinv reciprocal logit digamma lgamma sinc")
def floating_unary(x: TensorType, eps: Any = None) -> TensorType:
    return TensorType(x.shape, dtypes.floating(x.dtype))


@rule("neg floor ceil round trunc sign square bitwise_not nan_to_num frac positive sgn")
@rule("relu relu6 silu gelu elu selu celu leaky_relu mish softplus softsign hardsigmoid hardswish hardtanh logsigmoid")
@rule("tanhshrink softshrink hardshrink threshold dropout")
@rule("contiguous clone detach cpu cuda fill tril triu")
def unchanged(x: TensorType, *settings: Any, **named: Any) -> TensorType:
    return x


@rule("abs")
def magnitude(x: TensorType) -> TensorType:
    return TensorType(x.shape, dtypes.to_real(x.dtype))


@rule("real imag")
def part(x: TensorType) -> TensorType:
    return TensorType(x.shape, dtypes.to_real(x.dtype))


@rule("conj resolve_conj")
def conjugate(x: TensorType) -> TensorType:
    return x


@rule("polar complex")
def polar(x: TensorType, angle: TensorType) -> TensorType:
    return _meet((x, angle), dtypes.to_complex)


@rule("clamp")
def clamp(x: TensorType, low: Any = None, high: Any = None) -> TensorType:
    return _meet([operand for operand in (x, low, high) if operand is not None])


@rule("clamp_min")
def clamp_min(x: TensorType, low: Any) -> TensorType:
    return _meet((x, low))


@rule("clamp_max")
def clamp_max(x: TensorType, high: Any) -> TensorType:
    return _meet((x, high))


@rule("addcmul addcdiv")
def fused(x: TensorType, tensor1: TensorType, tensor2: TensorType, value: Any = 1) -> TensorType:
    return _meet((x, tensor1, tensor2))


@rule("lerp")
def lerp(x: TensorType, end: TensorType, weight: Any) -> TensorType:
    return _meet((x, end, *tensors([weight])))


@rule("copy")
def copy(x: TensorType, src: TensorType) -> TensorType:
    """``src`` broadcast to ``x`` and cast to its dtype."""
    if list(map(sizes.value, broadcast(x.shape, src.shape))) != list(map(sizes.value, x.shape)):
        raise ShapeError(f"a tensor of shape {src.shape} does not fit into one of shape {x.shape}")
    return x


# Casts


@rule("to type")
def cast(x: TensorType, *targets: Any, dtype: DType | None = None, other: TensorType | None = None) -> TensorType:
    """A dtype may stand at any place among the devices; another tensor stands for its dtype."""
    found = dtype if other is None else other.dtype
    for target in targets:
        if isinstance(target, TensorType):
            found = target.dtype
        elif isinstance(target, DType):
            found = target
    return TensorType(x.shape, found or x.dtype)


@rule("type_as")
def type_as(x: TensorType, other: TensorType) -> TensorType:
    return TensorType(x.shape, other.dtype)


_CASTS = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "bfloat16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
    "bool": "bool",
}
for _name, _target in _CASTS.items():
    rule(_name)(partial(cast, dtype=DType(_target)))
