"""Calls of operators that compute each element."""

from __future__ import annotations

from typing import Any

import shape_drawing as drawing
from hypothesis import strategies as st
from kunport.analysis.shapes import TensorType
from kunport_codegen.graph import DType
from shape_drawing import ALL, BOOL, FLOATS, INTEGERS, NUMBERS, Draw, narrower, partners, tensors
from shape_registering import FLOAT32, FLOAT64, calls, case, only, pair

calls("add mul eq ne lt le gt ge", pair(partners()))
calls("sub remainder floor_divide pow", pair(partners(NUMBERS)))
calls("maximum minimum logical_and logical_or logical_xor", pair(partners(ALL, scalars=False)))
calls("fmod atan2 xlogy", pair(partners(NUMBERS, scalars=False)))
calls("fmax fmin logaddexp hypot", pair(partners(FLOATS, scalars=False)))
calls("bitwise_and bitwise_or bitwise_xor", pair(partners([*INTEGERS, BOOL], scalars=False)))
calls("bitwise_left_shift bitwise_right_shift", pair(partners(INTEGERS, scalars=False)))
calls("isnan isinf isfinite logical_not", only(tensors()))
calls("exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh", only(tensors()))
calls("asinh acosh atanh sigmoid erf erfc erfinv reciprocal digamma lgamma sinc logit", only(tensors()))
calls("neg sign square floor ceil round trunc positive abs sgn nan_to_num", only(tensors(dtypes=NUMBERS)))
calls("frac relu relu6 silu gelu elu selu celu leaky_relu mish softplus softsign", only(tensors(dtypes=FLOATS)))
calls("hardsigmoid hardswish hardtanh logsigmoid tanhshrink softshrink hardshrink", only(tensors(dtypes=FLOATS)))
calls("bitwise_not", only(tensors(dtypes=[*INTEGERS, BOOL])))
calls("contiguous clone detach cpu cuda conj resolve_conj", only(tensors()))
calls("float double half bfloat16 long int short char byte bool", only(tensors()))
calls("real imag", only(tensors(dtypes=[DType("complex64"), DType("complex128")])))
calls("tril triu", st.tuples(st.tuples(tensors(2), st.integers(-2, 2)), st.just({})))


@case("div")
def _div(draw: Draw) -> Any:
    mode = draw(st.sampled_from([None, "floor", "trunc"]))
    return draw(partners(NUMBERS, scalars=mode is None)), {} if mode is None else {"rounding_mode": mode}


@case("isclose")
def _isclose(draw: Draw) -> Any:
    shape, dtype = draw(drawing.shapes()), draw(st.sampled_from(FLOATS))
    return (TensorType(shape, dtype), TensorType(draw(narrower(shape)), dtype)), {"atol": 1e-3}


@case("isin")
def _isin(draw: Draw) -> Any:
    dtype = draw(st.sampled_from(NUMBERS))
    return (draw(tensors(dtypes=[dtype])), draw(tensors(1, 1, [dtype]))), {}


calls("dropout", tensors(dtypes=FLOATS).map(lambda drawn: ((drawn, 0.1), {"training": False})))
calls("threshold", tensors(dtypes=FLOATS).map(lambda drawn: ((drawn, 0.1, 0.0), {})))
calls("fill", tensors().map(lambda drawn: ((drawn, 1), {})))


@case("polar complex")
def _polar(draw: Draw) -> Any:
    shape, dtype = draw(drawing.shapes()), draw(st.sampled_from([FLOAT32, FLOAT64]))
    return (TensorType(shape, dtype), TensorType(draw(narrower(shape)), dtype)), {}


@case("clamp")
def _clamp(draw: Draw) -> Any:
    shape = draw(drawing.shapes())
    x = TensorType(shape, draw(st.sampled_from(NUMBERS)))
    if draw(st.booleans()):
        low = TensorType(draw(narrower(shape)), draw(st.sampled_from(NUMBERS)))
        return (x, low), {}
    bound = draw(st.sampled_from([1, 0.5]))
    return (x,), draw(st.sampled_from([{"min": bound}, {"max": bound}, {"min": 0, "max": bound}]))


@case("clamp_min clamp_max")
def _clamp_one(draw: Draw) -> Any:
    return (draw(tensors(dtypes=NUMBERS)), draw(st.sampled_from([1, 0.5]))), {}


@case("addcmul addcdiv lerp")
def _three(draw: Draw) -> Any:
    shape, dtype = draw(drawing.shapes()), draw(st.sampled_from(FLOATS))
    return tuple(TensorType(draw(narrower(shape)), dtype) for _ in range(3)), {}


@case("copy")
def _copy(draw: Draw) -> Any:
    x = draw(tensors())
    return (x, TensorType(draw(narrower(x.shape)), draw(st.sampled_from(ALL)))), {}


@case("to type")
def _to(draw: Draw) -> Any:
    x, target = draw(tensors()), draw(st.sampled_from([*ALL, DType("bfloat16")]))
    return draw(st.sampled_from([((x, target), {}), ((x,), {"dtype": target})]))


@case("type_as")
def _type_as(draw: Draw) -> Any:
    return (draw(tensors()), draw(tensors())), {}
