import pytest
from hypothesis import given
from hypothesis import strategies as st
from kunport_runtime.operators.dimensions import parse_shape

NAMES = st.sampled_from(["rows", "size", "head_dim", "tokens"])
TERMS = st.lists(st.tuples(st.integers(1, 9), NAMES), min_size=1, max_size=3, unique_by=lambda term: term[1])


def spelled(terms, constant):
    parts = [name if factor == 1 else f"{factor} * {name}" for factor, name in terms]
    return " + ".join(parts) + (f" - {-constant}" if constant < 0 else f" + {constant}" if constant else "")


@given(TERMS, st.integers(-5, 5), st.data())
def test_a_dimension_is_the_sum_that_it_spells(terms, constant, data):
    (dimension,) = parse_shape(spelled(terms, constant))
    sizes = {name: data.draw(st.integers(0, 50)) for _, name in terms}
    assert dimension.size(sizes) == sum(factor * sizes[name] for factor, name in terms) + constant


@given(TERMS, st.integers(-5, 5), st.data())
def test_solving_finds_the_size_that_was_taken_away(terms, constant, data):
    (dimension,) = parse_shape(spelled(terms, constant))
    sizes = {name: data.draw(st.integers(0, 50)) for _, name in terms}
    missing = data.draw(st.sampled_from(terms))[1]
    total = dimension.size(sizes)
    known = {name: size for name, size in sizes.items() if name != missing}
    assert dimension.size(known) is None
    assert dimension.solve(total, known) == (missing, sizes[missing])


def test_what_has_no_solution():
    (double,) = parse_shape("2 * size")
    assert double.solve(7, {}) is None
    assert double.solve(6, {"size": 3}) is None
    (more,) = parse_shape("size + 4")
    assert more.solve(3, {}) is None
    (two,) = parse_shape("rows + size")
    assert two.solve(3, {}) is None


def test_a_shape_is_its_dimensions_in_order():
    assert [(each.text, each.name) for each in parse_shape("rows, 2 * size, 3")] == [
        ("rows", "rows"),
        ("2 * size", ""),
        ("3", ""),
    ]


@pytest.mark.parametrize("text", ["rows size", "2 **  size", "rows /", "rows + ", "Rows"])
def test_what_is_no_dimension(text):
    with pytest.raises(ValueError, match="no dimension"):
        parse_shape(text)
