from __future__ import annotations

import math

import numpy as np
import pytest
from formulas import true_facts
from graph_builder import BATCH, FLOAT32, MODEL, SEQUENCE, GraphBuilder, Tensor
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kunport_codegen.expression import apply, field, unwrap
from kunport_codegen.recognition import recognize, ropes
from rotary import (
    FREQUENCIES,
    THETA,
    configuration,
    halves,
    inverse_frequencies,
    products,
    rotate_half,
    rotate_pairs,
    tables,
    theta,
)


def query(build: GraphBuilder, head_dim: int = 8, heads_first: bool = True, heads: int = 3) -> Tensor:
    shape = (BATCH, heads, SEQUENCE, head_dim) if heads_first else (BATCH, SEQUENCE, heads, head_dim)
    return build.parameter("q", *shape)


@settings(max_examples=80, deadline=None)
@given(
    rope_type=st.sampled_from(sorted(FREQUENCIES)),
    style=st.sampled_from(("half", "interleaved")),
    spelling=st.sampled_from(("products", "halves")),
    rotary_dim=st.integers(1, 4).map(lambda n: 2 * n),
    passed=st.integers(0, 4),
    scaling=st.sampled_from((1.0, 1.25)),
    heads_first=st.booleans(),
    upcast=st.sampled_from(("none", "table", "query")),
)
def test_each_spelling_is_the_rotation_that_its_numbers_say(
    rope_type, style, spelling, rotary_dim, passed, scaling, heads_first, upcast
) -> None:
    assume(rotary_dim > 2 or style == "half")  # of a single pair both styles are one
    assume(rope_type != "proportional" or rotary_dim > 2)  # of a single pair half is none
    build = GraphBuilder(configuration(rope_type, pairs=rotary_dim // 2))
    layout = "once" if spelling == "halves" else style
    frequencies = FREQUENCIES[rope_type](build, rotary_dim)
    cos, sin = tables(build, frequencies, layout, scaling, FLOAT32 if upcast == "table" else MODEL)
    cos, sin = (table.unsqueeze(1 if heads_first else 2) for table in (cos, sin))
    x = query(build, rotary_dim + passed, heads_first)
    y = x.to(FLOAT32) if upcast == "query" else x
    rotated = {"products": products, "halves": halves}[spelling](build, y[..., :rotary_dim], cos, sin, style)
    result = build.cat(rotated, y[..., rotary_dim:])
    result = result.to(MODEL) if upcast != "none" else result
    facts = true_facts(build.graph(result))
    (table,), (rope,) = facts.tables, facts.ropes
    assert (table.rope_type, table.parameters) == (rope_type, "rope_parameters")
    assert (table.theta, table.rotary_dim, table.scaling) == (theta(), rotary_dim, scaling)
    assert (rope.style, rope.upcast, rope.table) == (style, upcast != "none", table)
    assert (rope.input, rope.output) == (x.id, result.id)


def rotated_query(build: GraphBuilder, cos: Tensor, sin: Tensor, style: str = "half") -> Tensor:
    return products(build, query(build), cos.unsqueeze(1), sin.unsqueeze(1), style)


def test_query_and_key_share_a_table() -> None:
    build = GraphBuilder(configuration("default"))
    cos, sin = (table.unsqueeze(1) for table in tables(build, inverse_frequencies(build, 8)))
    key = build.parameter("k", BATCH, 1, SEQUENCE, 8)
    rotated = products(build, query(build), cos, sin, "half"), products(build, key, cos, sin, "half")
    facts = true_facts(build.graph(*rotated))
    assert [rope.output for rope in facts.ropes] == [each.id for each in rotated]
    assert len(facts.tables) == 1
    assert not facts.ropes[0].nodes & facts.ropes[1].nodes
    assert cos.id not in facts.ropes[0].nodes | facts.ropes[1].nodes


def test_a_table_may_be_halved_and_repeated_where_it_is_used() -> None:
    build = GraphBuilder(configuration("default"))
    cos, sin = tables(build, inverse_frequencies(build, 8))
    cos, sin = (table.unsqueeze(1)[..., :4].repeat_interleave(2, dim=-1) for table in (cos, sin))
    (rope,) = true_facts(build.graph(products(build, query(build), cos, sin, "interleaved"))).ropes
    assert rope.style == "interleaved"


def test_each_table_keeps_its_own_description() -> None:
    described = configuration("default")["rope_parameters"]
    build = GraphBuilder({"rope_parameters": {"full": described, "sliding": {**described, "rope_theta": 7.0}}})
    results = []
    for name, base in (("full", THETA), ("sliding", 7.0)):
        frequencies = inverse_frequencies(build, 8, field(f"rope_parameters['{name}']['rope_theta']", base))
        results.append(rotated_query(build, *tables(build, frequencies)))
    facts = true_facts(build.graph(*results))
    assert [table.parameters for table in facts.tables] == ["rope_parameters['full']", "rope_parameters['sliding']"]
    assert [rope.table.parameters for rope in facts.ropes] == [table.parameters for table in facts.tables]


def test_a_theta_of_the_source_needs_no_configuration() -> None:
    build = GraphBuilder()
    result = rotated_query(build, *tables(build, inverse_frequencies(build, 8, 10000.0)))
    (rope,) = true_facts(build.graph(result)).ropes
    assert (rope.table.theta, rope.table.parameters, rope.table.rope_type) == (10000.0, "", "default")


def by_formula(tables):
    return [table for table in tables if not table.own]


TABLE_MISSES = {
    "another exponent": lambda b: 1.0 / theta() ** (b.arange(0, 8, 2, dtype=FLOAT32) / 6),
    "another step": lambda b: 1.0 / theta() ** (b.arange(0, 4, 1, dtype=FLOAT32) / 8),
    "frequencies, not their inverse": lambda b: theta() ** (b.arange(0, 8, 2, dtype=FLOAT32) / 8),
    "stretched though the type is default": lambda b: inverse_frequencies(b, 8) / 4.0,
    "learned frequencies": lambda b: inverse_frequencies(b, 8) * b.parameter("f", 4),
}


@pytest.mark.parametrize("name", TABLE_MISSES)
def test_other_frequencies_are_no_table(name) -> None:
    build = GraphBuilder(configuration("default"))
    facts = recognize(build.graph(rotated_query(build, *tables(build, TABLE_MISSES[name](build)))))
    assert by_formula(facts.tables) == []
    assert all(rope.table.own for rope in facts.ropes)  # a rotation by frequencies that no formula says


@pytest.mark.parametrize("rope_type", ["linear", "llama3", "yarn", "unheard_of"])
def test_a_rope_type_must_be_what_the_nodes_compute(rope_type) -> None:
    build = GraphBuilder(configuration(rope_type))
    facts = recognize(build.graph(rotated_query(build, *tables(build, inverse_frequencies(build, 8)))))
    assert by_formula(facts.tables) == []


def test_a_description_without_its_parameters_is_no_table() -> None:
    build = GraphBuilder({"rope_parameters": {"rope_type": "llama3", "rope_theta": THETA}})
    facts = recognize(build.graph(rotated_query(build, *tables(build, inverse_frequencies(build, 8)))))
    assert by_formula(facts.tables) == []


def test_a_theta_that_the_configuration_lost_is_taken_as_default() -> None:
    build = GraphBuilder({"rope_parameters": None})
    (table,) = recognize(build.graph(rotated_query(build, *tables(build, inverse_frequencies(build, 8))))).tables
    assert table.rope_type == "default"


@pytest.mark.parametrize(
    "positions",
    [
        lambda b: b.arange(SEQUENCE) + 1,
        lambda b: b.arange(SEQUENCE) * 2,
        lambda b: b.arange(SEQUENCE).clamp(max=3),
        lambda b: b.arange(SEQUENCE) + b.arange(SEQUENCE),
        lambda b: b.arange(5),
    ],
)
def test_other_positions_are_no_table(positions) -> None:
    build = GraphBuilder(configuration("default"))
    angles = positions(build).unsqueeze(0)[..., None] * inverse_frequencies(build, 8)
    angles = build.cat(angles, angles)
    assert by_formula(recognize(build.graph(rotated_query(build, angles.cos(), angles.sin()))).tables) == []


def test_tables_scaled_apart_are_no_pair() -> None:
    build = GraphBuilder(configuration("default"))
    cos, sin = tables(build, inverse_frequencies(build, 8))
    assert recognize(build.graph(rotated_query(build, cos * 2.0, sin))).tables == []


BACKWARDS = {
    "subtracted": lambda b, x, cos, sin: x * cos - rotate_half(b, x) * sin,
    "the sign on the other half": lambda b, x, cos, sin: x * cos + b.cat(x[..., 4:], -x[..., :4]) * sin,
    "a negative table": lambda b, x, cos, sin: x * cos + rotate_half(b, x) * -sin,
}


@pytest.mark.parametrize("name", BACKWARDS)
def test_a_rotation_the_other_way_is_backwards(name) -> None:
    build = GraphBuilder(configuration("default"))
    cos, sin = (table.unsqueeze(1) for table in tables(build, inverse_frequencies(build, 8)))
    (rope,) = true_facts(build.graph(BACKWARDS[name](build, query(build), cos, sin))).ropes
    assert (rope.backwards, rope.style, rope.regrouped) == (True, "half", False)


REGROUPED = {
    "taken apart after": lambda b, x, c, s: _apart(b, x, c, s),
    "taken apart before": lambda b, x, c, s: products(
        b, x.reshape((BATCH, 3, SEQUENCE, 4, 2)).transpose(4, 3).reshape((BATCH, 3, SEQUENCE, 8)), c, s, "half"
    ),
}


def _apart(b: GraphBuilder, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second, cos, sin = x[..., 0::2], x[..., 1::2], cos[..., :4], sin[..., :4]
    return b.cat(first * cos - second * sin, second * cos + first * sin)


@pytest.mark.parametrize("name", REGROUPED)
def test_pairs_that_are_taken_apart_are_regrouped(name) -> None:
    build = GraphBuilder(configuration("default"))
    cos, sin = (table.unsqueeze(1) for table in tables(build, inverse_frequencies(build, 8)))
    x = query(build)
    (rope,) = true_facts(build.graph(REGROUPED[name](build, x, cos, sin))).ropes
    assert (rope.input, rope.style, rope.regrouped, rope.backwards) == (x.id, "interleaved", True, False)


@pytest.mark.parametrize("follows", ["nothing", "a cast"])
def test_a_complex_rotation(follows) -> None:
    build = GraphBuilder(configuration("default"))
    angles = build.arange(SEQUENCE).unsqueeze(0)[..., None].to(FLOAT32) * inverse_frequencies(build, 8)
    table = build.apply("polar", angles.ones_like(), angles) * 1.5
    x = query(build)
    turned = x.to(FLOAT32).reshape((BATCH, 3, SEQUENCE, -1, 2)).view_as_complex() * table[:, None]
    result = turned.view_as_real().flatten(3).to(MODEL)
    last = result.to(FLOAT32) if follows == "a cast" else result
    (rope,) = true_facts(build.graph(last)).ropes
    assert (rope.input, rope.output, rope.style, rope.upcast) == (x.id, result.id, "interleaved", True)
    assert (rope.table.cos, rope.table.sin, rope.table.scaling) == (table.id, table.id, 1.5)


@pytest.mark.parametrize("sines_first", [True, False])
def test_tables_that_are_looked_up_by_position(sines_first) -> None:
    build = GraphBuilder({"rotary_dim": 8})
    dim = field("rotary_dim", 8)
    frequencies = 1.0 / 10000 ** (build.arange(0, dim, 2, dtype=FLOAT32) / dim)
    angles = build.apply("einsum", "i , j -> i j", build.arange(2000, dtype=FLOAT32), frequencies)
    pair = (angles.sin(), angles.cos()) if sines_first else (angles.cos(), angles.sin())
    looked_up = build.cat(*pair)[build.arange(SEQUENCE).unsqueeze(0)].split(4, dim=-1)
    sin, cos = (looked_up.item(k if sines_first else 1 - k) for k in (0, 1))
    x = query(build)
    spread = [table[:, None].repeat_interleave(2, dim=3) for table in (cos, sin)]
    (rope,) = true_facts(build.graph(products(build, x, *spread, "interleaved"))).ropes
    assert (rope.input, rope.style, rope.returns) == (x.id, "interleaved", False)
    assert (rope.table.rotary_dim, rope.table.cos, rope.table.sin) == (dim, cos.id, sin.id)


def test_a_rotation_may_stay_in_float32() -> None:
    build = GraphBuilder(configuration("default"))
    cos, sin = (table.unsqueeze(1) for table in tables(build, inverse_frequencies(build, 8)))
    x = query(build)
    (rope,) = true_facts(build.graph(x.to(FLOAT32) * cos + rotate_half(build, x) * sin)).ropes
    assert (rope.input, rope.returns, rope.upcast) == (x.id, False, True)


def test_an_odd_number_of_elements_counts_up_to_the_next_pair() -> None:
    build = GraphBuilder(configuration("default"))
    cos, sin = tables(build, inverse_frequencies(build, 7))
    (rope,) = true_facts(build.graph(rotated_query(build, cos, sin))).ropes
    assert rope.table.rotary_dim == 7


ROTATION_MISSES = {
    "swapped tables": lambda b, x, cos, sin: x * sin + rotate_half(b, x) * cos,
    "cosine twice": lambda b, x, cos, sin: x * cos + rotate_half(b, x) * cos,
    "no rotated half": lambda b, x, cos, sin: x * cos + x * sin,
    "no sign": lambda b, x, cos, sin: x * cos + b.cat(x[..., 4:], x[..., :4]) * sin,
    "uneven halves": lambda b, x, cos, sin: x * cos + b.cat(-x[..., 3:], x[..., :3]) * sin,
    "pairs with tables for halves": lambda b, x, cos, sin: x * cos + rotate_pairs(b, x) * sin,
    "an extra term": lambda b, x, cos, sin: x * cos + rotate_half(b, x) * sin + x,
    "squared": lambda b, x, cos, sin: x * x * cos + rotate_half(b, x) * sin,
    "two tensors": lambda b, x, cos, sin: x * cos + rotate_half(b, b.parameter("y", *x.kind.shape)) * sin,
    "a learned shift": lambda b, x, cos, sin: x * cos + rotate_half(b, x) * sin + b.parameter("y", 8),
}


@pytest.mark.parametrize("name", ROTATION_MISSES)
def test_a_near_miss_is_no_rotation(name) -> None:
    build = GraphBuilder(configuration("default"))
    cos, sin = (table.unsqueeze(1) for table in tables(build, inverse_frequencies(build, 8)))
    facts = recognize(build.graph(ROTATION_MISSES[name](build, query(build), cos, sin)))
    assert all(rope.output != build.result.output[0].id for rope in facts.ropes)


@pytest.mark.parametrize(
    "join",
    [
        lambda b, turned, x: b.cat(x[..., 8:], turned),
        lambda b, turned, x: b.cat(turned, -x[..., 8:]),
        lambda b, turned, x: b.cat(turned, x[..., :4]),
        lambda b, turned, x: b.cat(turned, b.parameter("rest", BATCH, 3, SEQUENCE, 4)),
    ],
)
def test_only_an_untouched_rest_belongs_to_a_rotation(join) -> None:
    build = GraphBuilder(configuration("default"))
    cos, sin = (table.unsqueeze(1) for table in tables(build, inverse_frequencies(build, 8)))
    x = query(build, 12)
    part = x[..., :8]
    turned = products(build, part, cos, sin, "half")
    (rope,) = true_facts(build.graph(join(build, turned, x))).ropes
    assert (rope.input, rope.output) == (part.id, turned.id)


# Frequencies in other words, each of base 100 and eight dimensions.
SPELLINGS = {
    "a negative power": lambda b: theta() ** -(b.arange(0, 8, 2, dtype=FLOAT32) / 8),
    "negated before": lambda b: theta() ** (-b.arange(0, 8, 2, dtype=FLOAT32) / 8),
    "half of the dimensions": lambda b: theta() ** -(b.arange(4, dtype=FLOAT32) / 4),
    "doubled": lambda b: 1.0 / theta() ** (b.arange(4, dtype=FLOAT32) * 2 / 8),
    "cut": lambda b: 1.0 / theta() ** (b.arange(0, 8, 2, dtype=FLOAT32)[:4] / 8),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_frequencies_may_be_spelled_in_other_words(name) -> None:
    build = GraphBuilder(configuration("default"))
    cos, sin = tables(build, SPELLINGS[name](build))
    (rope,) = true_facts(build.graph(rotated_query(build, cos, sin))).ropes
    assert (unwrap(rope.table.theta), unwrap(rope.table.rotary_dim)) == (100.0, 8)


@pytest.mark.parametrize("length", [64, 4096])
def test_a_table_of_all_positions_may_be_cut_to_those_of_the_tokens(length) -> None:
    build = GraphBuilder(configuration("default"))
    angles = build.arange(0, length, 1).to(FLOAT32)[:, None] * inverse_frequencies(build, 8)
    angles = build.cat(angles, angles)
    cos, sin = (table[:SEQUENCE].unsqueeze(0) for table in (angles.cos(), angles.sin()))
    (rope,) = recognize(build.graph(rotated_query(build, cos, sin))).ropes
    assert (rope.style, unwrap(rope.table.rotary_dim)) == ("half", 8)


def test_a_base_that_the_length_decides_is_described_by_no_configuration() -> None:
    build = GraphBuilder(configuration("default"))
    base = apply("mul", theta(), SEQUENCE)
    cos, sin = tables(build, inverse_frequencies(build, 8, base))
    (rope,) = recognize(build.graph(rotated_query(build, cos, sin))).ropes
    table = rope.table
    assert (table.rope_type, table.parameters, rope.style) == ("dynamic", "", "half")
    assert np.allclose(table.own, unwrap(base) ** (-np.arange(0, 8, 2) / 8))


def _own(build: GraphBuilder, kind: str, default: Tensor) -> Tensor:
    """Frequencies by numbers that stand in the source."""
    if kind == "linear":
        return default / 4
    if kind == "llama3":
        wavelength = default.reciprocal() * (2 * math.pi)
        share = (wavelength.reciprocal() * 64 - 1) / 3
        mixed = (-share + 1) * default / 8 + share * default
        low = build.apply("where", build.apply("gt", wavelength, 64.0), default / 8, mixed)
        return build.apply("where", build.apply("lt", wavelength, 16.0), default, low)
    share = build.apply("clamp", (build.arange(4, dtype=FLOAT32) - 1) / 2, 0, 1)
    return default / 8 * share + default * (-share + 1)


@pytest.mark.parametrize("kind", ["linear", "llama3", "yarn"])
def test_formulas_by_numbers_of_the_source_are_told(kind: str) -> None:
    build = GraphBuilder({})
    default = 1.0 / 10000.0 ** (build.arange(0, 8, 2, dtype=FLOAT32) / 8)
    cos, sin = tables(build, _own(build, kind, default))
    (rope,) = recognize(build.graph(rotated_query(build, cos, sin))).ropes
    assert (rope.table.rope_type, rope.table.theta, rope.table.rotary_dim) == (kind, 10000.0, 8)


def test_numbers_that_follow_no_formula_have_no_name() -> None:
    build = GraphBuilder({})
    default = 1.0 / 10000.0 ** (build.arange(0, 8, 2, dtype=FLOAT32) / 8)
    cos, sin = tables(build, default / (build.arange(4, dtype=FLOAT32) + 2))
    (rope,) = recognize(build.graph(rotated_query(build, cos, sin))).ropes
    assert (rope.table.rope_type, len(rope.table.own)) == ("", 4)


def test_a_long_chain_around_a_rotation_takes_little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """What may belong to a rotation is bounded: every pair of a beginning and an end would be tried otherwise."""
    build = GraphBuilder(configuration("default"))
    cos, sin = tables(build, FREQUENCIES["default"](build, 8), "half")
    x = query(build)
    for _ in range(200):
        x = x * 1.0
    x = products(build, x, cos.unsqueeze(1), sin.unsqueeze(1), "half")
    for _ in range(200):
        x = x + 0.5
    tried: list[int] = []
    spelled = ropes.spelled
    monkeypatch.setattr(ropes, "spelled", lambda index, nodes, names: tried.append(1) or spelled(index, nodes, names))
    (rope,) = recognize(build.graph(x)).ropes
    assert rope.style == "half"
    assert len(tried) < 8000
