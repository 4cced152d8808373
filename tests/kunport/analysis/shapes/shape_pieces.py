"""Calls of operators that cut, join and repeat."""

from __future__ import annotations

from typing import Any

import shape_drawing as drawing
from hypothesis import strategies as st
from kunport.analysis.shapes import TensorType
from kunport_codegen.expression import apply, field
from shape_drawing import ALL, FLOATS, Draw, narrower, tensors
from shape_registering import INT64, case


@case("chunk tensor_split")
def _chunk(draw: Draw) -> Any:
    x = draw(tensors(1))
    return (x, draw(st.integers(1, 4))), {"dim": draw(drawing.dims(x.rank))}


@case("split")
def _split(draw: Draw) -> Any:
    x = draw(tensors(1))
    dim = draw(drawing.dims(x.rank))
    each = draw(st.sampled_from([2, 3, x.shape[dim]]))
    return (x, each), {"dim": dim}


@case("split_with_sizes")
def _split_with_sizes(draw: Draw) -> Any:
    x = draw(tensors(1))
    pieces = draw(st.lists(drawing.sizes, min_size=1, max_size=3))
    total: Any = 0
    for piece in pieces:
        total = apply("add", total, piece)
    return (TensorType((*x.shape, total), x.dtype), pieces), {"dim": -1}


@case("unbind")
def _unbind(draw: Draw) -> Any:
    x = draw(tensors(1))
    return (x, draw(drawing.dims(x.rank))), {}


@case("cat")
def _cat(draw: Draw) -> Any:
    shape = draw(drawing.shapes(1))
    dim = draw(drawing.dims(len(shape)))
    held = []
    for _ in range(draw(st.integers(1, 3))):
        own = list(shape)
        own[dim] = draw(drawing.sizes)
        held.append(TensorType(tuple(own), draw(st.sampled_from(ALL))))
    return (held,), {"dim": dim}


@case("stack")
def _stack(draw: Draw) -> Any:
    shape = draw(drawing.shapes())
    held = [TensorType(shape, draw(st.sampled_from(ALL))) for _ in range(draw(st.integers(1, 3)))]
    return (held, draw(st.integers(-len(shape) - 1, len(shape)))), {}


@case("hstack vstack")
def _hstack(draw: Draw) -> Any:
    x = draw(tensors(1, 3))
    return ((x, x),), {}


@case("repeat tile")
def _repeat(draw: Draw) -> Any:
    x = draw(tensors(0, 3))
    return (x, *draw(st.lists(drawing.sizes, min_size=max(x.rank, 1), max_size=4))), {}


@case("repeat_interleave")
def _repeat_interleave(draw: Draw) -> Any:
    x = draw(tensors(1))
    if draw(st.integers(0, 3)) == 0:
        return (x, draw(drawing.sizes)), {}
    dim = draw(drawing.dims(x.rank))
    if draw(st.booleans()):
        return (x, TensorType((x.shape[dim],), INT64)), {"dim": dim}
    return (x, draw(drawing.sizes)), {"dim": dim}


@case("meshgrid")
def _meshgrid(draw: Draw) -> Any:
    dtype = draw(st.sampled_from(ALL))
    held = draw(st.lists(tensors(1, 1, [dtype]), min_size=1, max_size=3))
    return tuple(held), {"indexing": draw(st.sampled_from(["ij", "xy"]))}


@case("broadcast_tensors")
def _broadcast_tensors(draw: Draw) -> Any:
    shape = draw(drawing.shapes())
    return tuple(
        TensorType(draw(narrower(shape)), draw(st.sampled_from(ALL))) for _ in range(draw(st.integers(1, 3)))
    ), {}


@case("pad")
def _pad(draw: Draw) -> Any:
    x = draw(tensors(1, 4, FLOATS))
    before = draw(st.integers(1, x.rank))
    return (x, tuple(draw(st.sampled_from([0, 1, 3, field("heads", 3)])) for _ in range(2 * before))), {}
