"""Calls of normalisation, gates and similarity."""

from __future__ import annotations

from typing import Any

import shape_drawing as drawing
from hypothesis import strategies as st
from kunport.analysis.shapes import TensorType
from shape_drawing import FLOATS, Draw, multiple, tensors
from shape_registering import case


@case("layer_norm rms_norm")
def _layer_norm(draw: Draw) -> Any:
    x = draw(tensors(1, 4, FLOATS))
    last = x.shape[draw(st.integers(0, x.rank - 1)) :]
    return (x, last, TensorType(last, x.dtype)), {}


@case("group_norm")
def _group_norm(draw: Draw) -> Any:
    x = draw(tensors(2, 4, FLOATS))
    return (x, x.shape[1]), {}


@case("glu")
def _glu(draw: Draw) -> Any:
    x = draw(tensors(1, 3, FLOATS))
    return (TensorType((*x.shape, multiple(draw(drawing.sizes), 2)), x.dtype), -1), {}


@case("cosine_similarity")
def _cosine_similarity(draw: Draw) -> Any:
    shape = draw(drawing.shapes(1))
    dtype = draw(st.sampled_from(FLOATS))
    return (TensorType(shape, dtype), TensorType(shape, dtype)), {"dim": draw(drawing.dims(len(shape)))}
