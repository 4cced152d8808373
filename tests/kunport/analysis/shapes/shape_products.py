"""Calls of products of matrices, and what is made of them."""

from __future__ import annotations

from typing import Any

import shape_drawing as drawing
from hypothesis import strategies as st
from kunport.analysis.shapes import TensorType
from kunport_codegen.expression import field
from shape_drawing import FLOATS, Draw, narrower, tensors
from shape_registering import FLOAT32, FLOAT64, case


@case("matmul")
def _matmul(draw: Draw) -> Any:
    dtype, inner, batch = draw(st.sampled_from(FLOATS)), draw(drawing.sizes), draw(drawing.shapes(0, 2))
    left = draw(st.sampled_from([(inner,), (*draw(narrower(batch)), draw(drawing.sizes), inner)]))
    right = draw(st.sampled_from([(inner,), (*draw(narrower(batch)), inner, draw(drawing.sizes))]))
    return (TensorType(left, dtype), TensorType(right, dtype)), {}


def products(draw: Draw, batch: tuple[Any, ...]) -> tuple[TensorType, TensorType, TensorType]:
    """A sum, and the two matrices that a product adds to it."""
    rows_, inner, columns = (draw(drawing.sizes) for _ in range(3))
    dtype = draw(st.sampled_from(FLOATS))
    shapes = ((*batch, rows_, columns), (*batch, rows_, inner), (*batch, inner, columns))
    return tuple(TensorType(shape, dtype) for shape in shapes)  # type: ignore[return-value]


@case("addmm")
def _addmm(draw: Draw) -> Any:
    return products(draw, ()), {}


@case("mm")
def _mm(draw: Draw) -> Any:
    return products(draw, ())[1:], {}


@case("baddbmm")
def _baddbmm(draw: Draw) -> Any:
    added, first, second = products(draw, (draw(drawing.sizes),))
    return (added,), {"batch1": first, "batch2": second, "beta": 0.5}


@case("bmm")
def _bmm(draw: Draw) -> Any:
    return products(draw, (draw(drawing.sizes),))[1:], {}


@case("mv")
def _mv(draw: Draw) -> Any:
    _, matrix, _ = products(draw, ())
    return (matrix, TensorType(matrix.shape[1:], matrix.dtype)), {}


@case("dot")
def _dot(draw: Draw) -> Any:
    x = draw(tensors(1, 1, FLOATS))
    return (x, x), {}


@case("outer")
def _outer(draw: Draw) -> Any:
    return (draw(tensors(1, 1)), draw(tensors(1, 1))), {}


@case("linear")
def _linear(draw: Draw) -> Any:
    dtype, inner = draw(st.sampled_from(FLOATS)), draw(drawing.sizes)
    weight = TensorType((draw(drawing.sizes), inner), dtype)
    bias = draw(st.sampled_from([(), (TensorType(weight.shape[:1], dtype),)]))
    return (TensorType((*draw(drawing.shapes(0, 3)), inner), dtype), weight, *bias), {}


@case("einsum")
def _einsum(draw: Draw) -> Any:
    a, b, c, d = (draw(drawing.sizes) for _ in range(4))
    dtype = draw(st.sampled_from(FLOATS))
    equation, *held = draw(
        st.sampled_from(
            [
                ("bhqd, bhkd -> bhqk", (a, b, c, d), (a, b, d, d)),
                ("ij,jk", (a, b), (b, c)),
                ("...i,...i->...", (a, b, c), (b, c)),
                ("...ij,jk->...ik", (a, b, c), (c, d)),
                ("i,j->ij", (a,), (b,)),
                ("bld,d->bl", (a, b, c), (c,)),
                ("ii->i", (a, a)),
            ]
        )
    )
    return (equation, *(TensorType(shape, dtype) for shape in held)), {}


@case("tensordot")
def _tensordot(draw: Draw) -> Any:
    a, b, c, d = (draw(drawing.sizes) for _ in range(4))
    dtype = draw(st.sampled_from(FLOATS))
    dims = draw(st.sampled_from([2, ([1, 2], [0, 1])]))
    return (TensorType((a, b, c), dtype), TensorType((b, c, d), dtype)), {"dims": dims}


@case("conv1d")
def _conv1d(draw: Draw) -> Any:
    dtype, channels, batch = draw(st.sampled_from(FLOATS)), draw(drawing.sizes), draw(drawing.shapes(0, 1))
    kernel = draw(st.sampled_from([1, 2, 3, field("heads", 3)]))
    setting = {
        "padding": draw(st.sampled_from([2, 4, (3,), "same", "valid"])),
        "stride": draw(st.sampled_from([1, 2, (3,)])),
        "dilation": draw(st.sampled_from([1, 2])),
        "groups": draw(st.sampled_from([1, channels])),
    }
    if setting["padding"] == "same":
        setting["stride"] = 1
    inputs = channels if setting["groups"] == 1 else 1
    x = TensorType((*batch, channels, draw(drawing.sizes)), dtype)
    return (x, TensorType((channels, inputs, kernel), dtype)), setting


@case("scaled_dot_product_attention")
def _attention(draw: Draw) -> Any:
    dtype, batch = draw(st.sampled_from(FLOATS)), draw(drawing.shapes(2, 2))
    queries, keys, width, other = (draw(drawing.sizes) for _ in range(4))
    shapes = ((*batch, queries, width), (*batch, keys, width), (*batch, keys, other))
    return tuple(TensorType(shape, dtype) for shape in shapes), {"is_causal": draw(st.booleans())}


@case("solve_triangular")
def _solve_triangular(draw: Draw) -> Any:
    dtype, batch, size = draw(st.sampled_from([FLOAT32, FLOAT64])), draw(drawing.shapes(0, 2)), draw(drawing.sizes)
    a = TensorType((*draw(narrower(batch)), size, size), dtype)
    return (a, TensorType((*batch, size, draw(drawing.sizes)), dtype)), {"upper": False}
