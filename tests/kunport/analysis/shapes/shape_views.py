"""Calls of operators that show the same elements in another shape."""

from __future__ import annotations

from typing import Any

import shape_drawing as drawing
from hypothesis import strategies as st
from kunport.analysis.shapes import TensorType
from kunport_codegen.graph import DType
from shape_drawing import ALL, BOOL, Draw, multiple, narrower, tensors
from shape_registering import FLOAT32, FLOAT64, calls, case, only


@case("reshape view")
def _reshape(draw: Draw) -> Any:
    """Neighbouring dimensions merged, one of them split, one of the sizes left to be worked out."""
    x = draw(tensors(1, 4))
    wanted: list[Any] = []
    place = 0
    while place < x.rank:
        if place + 1 < x.rank and draw(st.booleans()):
            wanted.append(multiple(x.shape[place], x.shape[place + 1]))
            place += 2
        else:
            wanted.append(x.shape[place])
            place += 1
    if draw(st.booleans()):
        wanted[draw(st.integers(0, len(wanted) - 1))] = -1
    if draw(st.booleans()):
        wanted.insert(draw(st.integers(0, len(wanted))), 1)
    return draw(st.sampled_from([(x, *wanted), (x, tuple(wanted))])), {}


@case("view_as reshape_as")
def _view_as(draw: Draw) -> Any:
    x = draw(tensors(1, 4))
    return (x, TensorType((*x.shape[1:], 1, x.shape[0]), x.dtype)), {}


@case("flatten")
def _flatten(draw: Draw) -> Any:
    x = draw(tensors())
    first = draw(st.integers(0, max(x.rank - 1, 0)))
    last = draw(st.integers(first, max(x.rank - 1, first)))
    return (x, first, last - (x.rank if draw(st.booleans()) and x.rank else 0)), {}


calls("ravel t T", only(tensors(0, 2)))
calls("mT", only(tensors(2)))


@case("unflatten")
def _unflatten(draw: Draw) -> Any:
    x = draw(tensors(1, 3))
    dim, size = draw(drawing.dims(x.rank)), draw(drawing.sizes)
    shape = list(x.shape)
    shape[dim] = multiple(size, draw(st.sampled_from([2, 3])))
    return (TensorType(tuple(shape), x.dtype), dim, draw(st.sampled_from([(size, -1), (-1, size)]))), {}


@case("unsqueeze")
def _unsqueeze(draw: Draw) -> Any:
    x = draw(tensors())
    return (x, draw(st.integers(-x.rank - 1, x.rank))), {}


@case("squeeze")
def _squeeze(draw: Draw) -> Any:
    x = draw(tensors())
    return (x, *draw(st.sampled_from([(), (draw(drawing.dims(x.rank)),)]))), {}


@case("permute")
def _permute(draw: Draw) -> Any:
    x = draw(tensors())
    return (x, draw(st.permutations(range(x.rank)))), {}


@case("transpose")
def _transpose(draw: Draw) -> Any:
    x = draw(tensors())
    return (x, draw(drawing.dims(x.rank)), draw(drawing.dims(x.rank))), {}


@case("movedim")
def _movedim(draw: Draw) -> Any:
    x = draw(tensors(1))
    source = draw(drawing.some_dims(x.rank, 1))
    return (x, source, draw(st.permutations(range(x.rank)))[: len(source)]), {}


@case("expand broadcast_to")
def _expand(draw: Draw) -> Any:
    shape = draw(drawing.shapes())
    own = draw(narrower(shape))
    lead = len(shape) - len(own)
    wanted = [
        -1 if place >= lead and own[place - lead] == size and draw(st.booleans()) else size
        for place, size in enumerate(shape)
    ]
    return (TensorType(own, draw(st.sampled_from(ALL))), wanted), {}


@case("expand_as")
def _expand_as(draw: Draw) -> Any:
    other = draw(tensors())
    return (TensorType(draw(narrower(other.shape)), BOOL), other), {}


@case("narrow")
def _narrow(draw: Draw) -> Any:
    x = draw(tensors(1))
    return (x, draw(drawing.dims(x.rank)), 0, 1), {}


@case("select")
def _select(draw: Draw) -> Any:
    x = draw(tensors(1))
    return (x, draw(drawing.dims(x.rank)), draw(st.sampled_from([0, -1]))), {}


@case("unfold")
def _unfold(draw: Draw) -> Any:
    x = draw(tensors(1))
    return (x, draw(drawing.dims(x.rank)), 1, draw(st.integers(1, 3))), {}


@case("diagonal")
def _diagonal(draw: Draw) -> Any:
    return (draw(tensors(2)),), {"offset": draw(st.integers(-3, 3)), "dim1": -2, "dim2": -1}


@case("view_as_complex")
def _view_as_complex(draw: Draw) -> Any:
    return (TensorType((*draw(drawing.shapes()), 2), draw(st.sampled_from([FLOAT32, FLOAT64]))),), {}


calls("view_as_real", only(tensors(dtypes=[DType("complex64"), DType("complex128")])))


@case("flip")
def _flip(draw: Draw) -> Any:
    x = draw(tensors(1))
    return (x, draw(drawing.some_dims(x.rank, 1))), {}


@case("roll")
def _roll(draw: Draw) -> Any:
    x = draw(tensors(1))
    return (x, 1, draw(drawing.dims(x.rank))), {}
