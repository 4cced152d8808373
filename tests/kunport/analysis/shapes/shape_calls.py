"""Calls of every operator, by family: what each strategy draws is what torch accepts."""

from __future__ import annotations

from typing import Any

import shape_drawing as drawing
from hypothesis import strategies as st
from kunport.analysis.shapes import TensorType
from kunport_codegen.expression import apply, field
from kunport_codegen.graph import DType
from shape_drawing import ALL, BOOL, FLOATS, INTEGERS, NUMBERS, Draw, multiple, narrower, partners, tensors

INT64, FLOAT32, FLOAT64 = DType("int64"), DType("float32"), DType("float64")
# Names of operators that take the same arguments -> a strategy of those arguments, positional and named.
CALLS: dict[str, st.SearchStrategy[Any]] = {}


def calls(names: str, strategy: st.SearchStrategy[Any]) -> None:
    CALLS[names] = strategy


def case(names: str) -> Any:
    """Registers a composite strategy; the decorated function draws (args, kwargs)."""

    def register(function: Any) -> Any:
        calls(names, st.composite(function)())
        return function

    return register


def only(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return strategy.map(lambda drawn: ((drawn,), {}))


def pair(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return strategy.map(lambda drawn: (tuple(drawn), {}))


# Elementwise

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


# Reductions


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


# Views


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


# Cutting, joining, repeating


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


# Indexing


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


# Creation

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


# Products


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


# Normalisation


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
