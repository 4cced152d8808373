"""Calls of operators that make tensors out of numbers."""

from __future__ import annotations

from typing import Any

import shape_drawing as drawing
from hypothesis import strategies as st
from kunport_codegen.expression import field
from shape_drawing import FLOATS, Draw, tensors
from shape_registering import FLOAT32, INT64, calls, case, only

calls(
    "zeros ones empty", st.tuples(drawing.shapes(1), st.sampled_from([{}, {"dtype": INT64}, {"dtype": drawing.MODEL}]))
)
calls("full", st.tuples(drawing.shapes(1), st.sampled_from([0, 0.5, True])).map(lambda drawn: (drawn, {})))
calls("zeros_like ones_like empty_like", only(tensors()))
calls("rand randn", drawing.shapes(1).map(lambda drawn: (drawn, {})))
calls("rand_like randn_like", only(tensors(dtypes=FLOATS)))
calls("full_like", tensors().map(lambda drawn: ((drawn, 1), {})))
calls("new_zeros new_ones new_empty", st.tuples(tensors(), drawing.shapes(1)).map(lambda drawn: (drawn, {})))
calls("new_full", st.tuples(tensors(), drawing.shapes(1), st.just(1)).map(lambda drawn: (drawn, {})))
calls("linspace", drawing.sizes.map(lambda steps: ((0, 1, steps), {})))
calls("eye", st.lists(drawing.sizes, min_size=1, max_size=2).map(lambda drawn: (tuple(drawn), {})))
calls("diag_embed", only(tensors(1)))


@case("arange")
def _arange(draw: Draw) -> Any:
    start, end = draw(st.sampled_from([0, 1, 2, 0.5])), draw(st.one_of(drawing.sizes, st.just(7.5)))
    bounds = draw(st.sampled_from([(end,), (start, end), (start, end, draw(st.sampled_from([1, 2, 3])))]))
    if len(bounds) == 2 and draw(st.booleans()):
        bounds = (end, draw(st.sampled_from([0, -1])), -1)
    return bounds, draw(st.sampled_from([{}, {"dtype": FLOAT32}]))


@case("tensor")
def _tensor(draw: Draw) -> Any:
    row = st.lists(st.sampled_from([1, 0.5, True, field("heads", 3)]), min_size=2, max_size=2)
    return (draw(st.one_of(st.sampled_from([1, 0.5, True]), row, st.lists(row, min_size=1, max_size=3))),), {}
