"""Calls of operators over dimensions."""

from __future__ import annotations

from typing import Any

import shape_drawing as drawing
from hypothesis import strategies as st
from kunport.analysis.shapes import TensorType
from kunport_codegen.expression import field
from kunport_codegen.graph import DType
from shape_drawing import ALL, FLOATS, NUMBERS, Draw, tensors
from shape_registering import FLOAT32, INT64, calls, case


@st.composite
def over(draw: Draw, dtypes: list[DType], optional: bool = True, several: bool = True, low: int = 0) -> Any:
    x = draw(tensors(low, 4, dtypes))
    if optional and draw(st.integers(0, 4)) == 0:
        return (x,), {}
    one = draw(drawing.dims(x.rank))
    dim = draw(st.sampled_from([one, draw(drawing.some_dims(x.rank, 1)) or one])) if several else one
    if not draw(st.booleans()):
        return (x, dim), {}
    return (x,), {"dim": dim, "keepdim": draw(st.booleans())}


calls("sum", over(ALL))
calls("prod", over(ALL, several=False))
calls("nansum mean var std norm", over(FLOATS))
calls("var_mean std_mean", over(FLOATS, optional=False))
calls("logsumexp", over(FLOATS, optional=False))
calls("amax amin", over(NUMBERS, low=1))
calls("all any argmax argmin", over([*FLOATS, INT64], several=False))
calls("max min median", over([*FLOATS, INT64], several=False))
calls("vector_norm", over(FLOATS).map(lambda drawn: (drawn[0][:1], {**drawn[1], "ord": 2})))
calls("count_nonzero", over(ALL, several=False).map(lambda drawn: (drawn[0], {})))


@st.composite
def along(draw: Draw, dtypes: list[DType] = ALL, low: int = 0) -> Any:
    x = draw(tensors(low, 4, dtypes))
    return (x,), {"dim": draw(drawing.dims(x.rank))}


calls("cumsum cumprod argsort sort cummax cummin", along())
calls("logcumsumexp softmax log_softmax softmin", along(FLOATS))
calls("normalize", along(FLOATS, low=1))


@case("diff")
def _diff(draw: Draw) -> Any:
    x = draw(tensors(1, 4, NUMBERS))
    dim = draw(drawing.dims(x.rank))
    own = list(x.shape)
    own[dim] = draw(drawing.sizes)
    edges = st.sampled_from([{}, {"prepend": TensorType(tuple(own), x.dtype)}, {"append": x}])
    return (x,), {"dim": dim, **draw(edges)}


calls("histc", tensors(1, 1, [FLOAT32]).map(lambda drawn: ((drawn, field("heads", 3), 0, 5), {})))


@case("topk kthvalue")
def _topk(draw: Draw) -> Any:
    x = draw(tensors(1, 4, [*FLOATS, INT64]))
    dim = draw(drawing.dims(x.rank))
    k = draw(st.sampled_from([1, x.shape[dim]]))
    return (x, k), {"dim": dim}


@case("bucketize")
def _bucketize(draw: Draw) -> Any:
    return (draw(tensors(dtypes=FLOATS)), draw(tensors(1, 1, FLOATS))), {}


@case("searchsorted")
def _searchsorted(draw: Draw) -> Any:
    return (draw(tensors(1, 1, [FLOAT32])), draw(tensors(1, 3, [FLOAT32]))), {}
