from __future__ import annotations

from graph_builder import FLOAT32, GraphBuilder
from kunport_codegen.graph import Ref
from kunport_codegen.recognition.index import Index
from kunport_codegen.recognition.pattern import Any, Cast, Match, OneOf, Op, Parameter


def test_a_pattern_binds_in_either_order_and_gives_its_nodes() -> None:
    build = GraphBuilder()
    x, weight = build.parameter("x", 2, 3).exp(), build.parameter("w", 3)
    for product in (x * weight, weight * x):
        match = Match(Index(build.graph(product)))
        assert match.matches(Op("mul", Parameter("weight"), Any("x")), Ref(product.id))
        assert match.bound["weight"] == "w"
        assert match.node("x").id == x.id
        assert list(match.nodes) == [product.id]


def test_a_name_stands_for_one_thing() -> None:
    build = GraphBuilder()
    x, y = build.parameter("x", 2), build.parameter("y", 2)
    pattern = Op("mul", Any("x"), Any("x"))
    square, product = x * x, x * y
    match = Match(Index(build.graph(square, product)))
    assert not match.matches(pattern, Ref(product.id))
    assert match.bound == {}
    assert match.nodes == {}
    assert match.matches(pattern, Ref(square.id))


def test_casts_are_optional_but_only_to_floating_types() -> None:
    build = GraphBuilder()
    x = build.parameter("x", 2)
    plain, upcast, integer = x.exp(), x.exp().to(FLOAT32), x.exp().gt(0.0)
    match = Match(Index(build.graph(plain, upcast, integer)))
    pattern = Cast(Op("exp", Any()))
    assert match.matches(pattern, Ref(plain.id))
    assert match.matches(pattern, Ref(upcast.id))
    assert not match.matches(pattern, Ref(integer.id))
    assert upcast.id in match.nodes


def test_named_arguments_must_be_those_of_the_pattern() -> None:
    build = GraphBuilder()
    x = build.parameter("x", 2, 3)
    total, last = x.sum(), x.sum(dim=-1)
    match = Match(Index(build.graph(total, last)))
    assert match.matches(Op("sum", Any(), dim=OneOf(-1, 1)), Ref(last.id))
    assert not match.matches(Op("sum", Any(), dim=OneOf(-1, 1)), Ref(total.id))
    assert not match.matches(Op("sum", Any()), Ref(last.id))
    assert not match.matches(Op("sum", Any(), 2), Ref(total.id))
