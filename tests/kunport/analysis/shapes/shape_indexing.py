"""Calls of operators that choose elements by place or by truth."""

from __future__ import annotations

from typing import Any

import shape_drawing as drawing
from hypothesis import strategies as st
from kunport.analysis.shapes import TensorType
from kunport_codegen.expression import field
from kunport_codegen.graph import DType
from shape_drawing import BOOL, FLOATS, NUMBERS, Draw, narrower, partners, tensors
from shape_registering import INT64, calls, case, only, pair


@st.composite
def indices(draw: Draw, shape: tuple[Any, ...], masks: bool = True) -> Any:
    items: list[Any] = []
    place, common = 0, draw(drawing.shapes(0, 2))
    kinds = ["slice", "slice", "number", "tensor", "ellipsis", "none", *(["mask"] if masks else [])]
    while place < len(shape) and len(items) < 6:
        kind, size = draw(st.sampled_from(kinds)), shape[place]
        if kind == "none":
            items.append(None)
            continue
        if kind == "ellipsis":
            kinds.remove("ellipsis")
            items.append(Ellipsis)
            place += draw(st.integers(0, len(shape) - place))
            continue
        if kind == "number":
            items.append(draw(st.sampled_from([0, -1])))
        elif kind == "tensor":
            items.append(TensorType(draw(narrower(common)), draw(st.sampled_from([INT64, DType("int32")]))))
        elif kind == "mask":
            items.append(TensorType((size,), BOOL))
        else:
            bound = st.sampled_from([None, 1, 2, -1, -2, size, *drawing.NAMED])
            items.append(slice(draw(bound), draw(bound), draw(st.sampled_from([None, 1, 2]))))
        place += 1
        if draw(st.integers(0, 4)) == 4:
            break
    return tuple(items) if len(items) != 1 or draw(st.booleans()) else items[0]


@case("getitem")
def _getitem(draw: Draw) -> Any:
    x = draw(tensors(1))
    return (x, draw(indices(x.shape))), {}


@case("setitem")
def _setitem(draw: Draw) -> Any:
    x = draw(tensors(1))
    return (x, draw(indices(x.shape)), 1), {}


@st.composite
def places(draw: Draw, wide: bool = False) -> Any:
    """A tensor, a dimension, and an index tensor of the same rank."""
    x = draw(tensors(1, 3, FLOATS))
    dim = draw(drawing.dims(x.rank))
    shape = list(x.shape)
    shape[dim] = 1 if wide else draw(st.sampled_from([1, x.shape[dim]]))
    return x, dim, TensorType(tuple(shape), INT64)


calls("gather", pair(places()))


@case("take_along_dim")
def _take_along_dim(draw: Draw) -> Any:
    x, dim, index = draw(places())
    return (x, index, *draw(st.sampled_from([(), (dim,)]))), {}


@case("scatter scatter_add")
def _scatter(draw: Draw) -> Any:
    x, dim, index = draw(places())
    return (x, dim, index, TensorType(index.shape, x.dtype)), {}


@case("scatter_reduce")
def _scatter_reduce(draw: Draw) -> Any:
    x, dim, index = draw(places())
    return (x, dim, index, TensorType(index.shape, x.dtype), "sum"), {}


@st.composite
def rows(draw: Draw) -> Any:
    x = draw(tensors(1, 3, FLOATS))
    dim = draw(drawing.dims(x.rank))
    count = draw(drawing.sizes)
    shape = list(x.shape)
    shape[dim] = count
    return x, dim, TensorType((count,), INT64), TensorType(tuple(shape), x.dtype)


calls("index_select", pair(rows().map(lambda drawn: drawn[:3])))
calls("index_add index_copy", pair(rows()))
calls("index_fill", pair(rows().map(lambda drawn: (*drawn[:3], 1.0))))
calls("index_reduce", pair(rows().map(lambda drawn: (*drawn, "prod"))))


@case("index_put")
def _index_put(draw: Draw) -> Any:
    x = draw(tensors(1, 3, FLOATS))
    return (x, (TensorType((2,), INT64),), TensorType((), x.dtype)), {}


@case("take")
def _take(draw: Draw) -> Any:
    return (draw(tensors(1)), draw(tensors(dtypes=[INT64]))), {}


@case("embedding")
def _embedding(draw: Draw) -> Any:
    return (draw(tensors(dtypes=[INT64, DType("int32")])), draw(tensors(2, 2, FLOATS))), {}


@case("masked_fill")
def _masked_fill(draw: Draw) -> Any:
    shape = draw(drawing.shapes())
    x, mask = TensorType(draw(narrower(shape)), draw(st.sampled_from(NUMBERS))), TensorType(draw(narrower(shape)), BOOL)
    return (x, mask, 1), {}


@case("masked_scatter")
def _masked_scatter(draw: Draw) -> Any:
    x = draw(tensors())
    return (x, TensorType(draw(narrower(x.shape)), BOOL), x), {}


@case("masked_select")
def _masked_select(draw: Draw) -> Any:
    x = draw(tensors())
    return (x, TensorType(draw(narrower(x.shape)), BOOL)), {}


@case("where")
def _where(draw: Draw) -> Any:
    shape = draw(drawing.shapes())
    condition = TensorType(draw(narrower(shape)), BOOL)
    if draw(st.integers(0, 3)) == 0:
        return (condition,), {}
    return (condition, *draw(partners())), {}


calls("nonzero argwhere", only(tensors()))
calls("unique unique_consecutive", only(tensors(1, 2, [INT64])))
calls("bincount", tensors(1, 1, [INT64]).map(lambda drawn: ((drawn,), {"minlength": field("inner", 10)})))
calls("one_hot", tensors(dtypes=[INT64]).map(lambda drawn: ((drawn, field("heads", 3)), {})))
