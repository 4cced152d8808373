"""What the tests of shape rules draw: sizes, tensors, and one strategy of arguments for each operator.

Sizes are scalars named after symbols and configuration fields. Each has a value to be analysed at and
another one to be checked at: a result's expression must be right at both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from kunport.analysis.shapes import Size, TensorType
from kunport_codegen.expression import apply, field, symbol
from kunport_codegen.graph import DType

Draw = Callable[..., Any]

CONFIG = {"heads": 3, "width": 6, "inner": 10, "rank": 7}
SIZES = {"batch": 5, "sequence": 11}
MODEL = DType("model")
FLOATS = [MODEL, DType("float32"), DType("float64")]
INTEGERS = [DType("int64"), DType("int32"), DType("uint8")]
BOOL = DType("bool")
NUMBERS = [*FLOATS, *INTEGERS]
ALL = [*NUMBERS, BOOL]

NAMED: list[Size] = [symbol(name, value) for name, value in SIZES.items()]
NAMED += [field(name, value) for name, value in CONFIG.items()]
sizes = st.one_of(
    st.sampled_from(NAMED),
    st.sampled_from(NAMED),
    st.sampled_from([1, 2, 4]),
    st.builds(lambda size: apply("mul", size, 2), st.sampled_from(NAMED)),
    st.builds(lambda size: apply("floordiv", size, 2), st.sampled_from(NAMED)),
)
# At least 4, so that half of one is still no 1: rules take a size of 1 for what it is.
other_values = st.fixed_dictionaries({name: st.integers(4, 13) for name in (*SIZES, *CONFIG)})


def multiple(size: Size, number: int) -> Size:
    return apply("mul", size, number)  # type: ignore[return-value]


def shapes(low: int = 0, high: int = 4) -> st.SearchStrategy[tuple[Size, ...]]:
    return st.lists(sizes, min_size=low, max_size=high).map(tuple)


def tensors(
    low: int = 0, high: int = 4, dtypes: list[DType] = ALL, shape: tuple[Size, ...] | None = None
) -> st.SearchStrategy[TensorType]:
    drawn = shapes(low, high) if shape is None else st.just(shape)
    return st.builds(TensorType, drawn, st.sampled_from(dtypes))


def dims(rank: int) -> st.SearchStrategy[int]:
    return st.integers(-max(rank, 1), max(rank, 1) - 1)


def some_dims(rank: int, least: int = 0) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, rank - 1), unique=True, min_size=least, max_size=rank) if rank else st.just([])


@st.composite
def narrower(draw: Draw, shape: tuple[Size, ...]) -> tuple[Size, ...]:
    """A shape that broadcasts to the given one."""
    kept = shape[draw(st.integers(0, len(shape))) :]
    return tuple(1 if draw(st.integers(0, 3)) == 0 else size for size in kept)


@st.composite
def partners(draw: Draw, dtypes: list[DType] = ALL, scalars: bool = True) -> tuple[Any, Any]:
    """Two operands that meet element by element, one of them a number at times."""
    shape = draw(shapes())
    one = TensorType(shape, draw(st.sampled_from(dtypes)))
    other = TensorType(draw(narrower(shape)), draw(st.sampled_from(dtypes)))
    if scalars and draw(st.integers(0, 2)) == 0:
        number = draw(st.sampled_from([2, 0.5, True, field("heads", 3)]))
        return draw(st.permutations([one, number]))
    return draw(st.permutations([one, other]))
