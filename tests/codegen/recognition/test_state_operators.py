"""Operators with a state: proved by numbers, and not where a single step of the formula is another."""

from __future__ import annotations

from typing import Any

import pytest
from graph_builder import BATCH, SEQUENCE, GraphBuilder, Tensor
from kunport_codegen.expression import Expr, Scalar
from kunport_codegen.facts import StateOperator
from kunport_codegen.recognition import recognize
from kunport_codegen.recognition.states.tokens import counts_tokens

WIDTH, HEADS, DIM, STATES, KERNEL = 12, 4, 3, 2, 4
PACKED = HEADS * DIM + 2 * STATES


def states(build: GraphBuilder, result: Tensor) -> dict[str, StateOperator]:
    return {each.kind: each for each in recognize(build.graph(result)).states}


def convolved(build: GraphBuilder, x: Tensor, **changed: Any) -> Tensor:
    """``silu(conv1d(x))`` of the first tokens, channels of tokens in front."""
    channels = changed.get("channels", PACKED)
    kernel = build.parameter("conv1d.weight", channels, channels // changed.get("groups", channels), KERNEL)
    options = {"padding": changed.get("padding", KERNEL - 1), "groups": changed.get("groups", channels)}
    return x.transpose(1, 2).conv1d(kernel, None, **options)[..., changed.get("cut", slice(None, SEQUENCE))]


def scan(build: GraphBuilder, x: Tensor, **changed: Any) -> Tensor:
    """Mamba 2's scan as attention without softmax, which is what it is for a whole sequence."""
    packed = convolved(build, x.linear(build.parameter("in", PACKED, WIDTH), None)).silu().transpose(1, 2)
    values = packed[..., : HEADS * DIM].reshape(BATCH, SEQUENCE, HEADS, DIM)
    into, out_of = packed[..., HEADS * DIM : -STATES], packed[..., -STATES:]
    into, out_of = (each.reshape(BATCH, SEQUENCE, 1, STATES).transpose(1, 2) for each in (into, out_of))
    raw = x.linear(build.parameter("dt", HEADS, WIDTH), None)
    step = (raw + build.parameter("dt_bias", HEADS)).softplus()
    step = step.clamp(min=0.01) if changed.get("limited") else step
    rates = -build.parameter("A_log", HEADS).exp()
    kept = (step * (rates if changed.get("rates", True) else rates * 2)).transpose(1, 2).cumsum(dim=-1)
    ones = build.apply("ones", (SEQUENCE, SEQUENCE))
    seen = ones.tril() if changed.get("causal", True) else ones
    decay = (kept[..., None] - kept[..., None, :]).exp() * seen
    entering = values * step[..., None] if changed.get("stepped", True) else values
    read = (out_of @ into.transpose(-1, -2) * decay) @ entering.transpose(1, 2)
    passed = values * build.parameter("D", HEADS)[..., None]
    out = read.transpose(1, 2) + passed if changed.get("direct", True) else read.transpose(1, 2)
    merged = out.reshape(BATCH, SEQUENCE, HEADS * DIM)
    return merged.linear(build.parameter("out", WIDTH, HEADS * DIM), None)


def scanned(**changed: Any) -> dict[str, StateOperator]:
    build = GraphBuilder()
    x = build.parameter("x", BATCH, SEQUENCE, WIDTH)
    return states(build, build.call(x, lambda inner: scan(build, inner, **changed)))


def test_a_scan_is_found_by_its_numbers() -> None:
    found = scanned()["mamba2_scan"]
    assert set(found.inputs) == {"x", "dt", "a", "b", "c", "d", "dt_bias"}
    assert (found.sizes, found.options) == ({"heads": HEADS, "head_dim": DIM, "state_size": STATES}, {})


def test_what_a_scan_leaves_out_is_not_given() -> None:
    assert "d" not in scanned(direct=False)["mamba2_scan"].inputs


def test_limits_are_taken_from_the_source_though_no_number_reaches_them() -> None:
    assert scanned(limited=True)["mamba2_scan"].options == {"dt_min": 0.01}


@pytest.mark.parametrize("changed", [{"causal": False}, {"stepped": False}])
def test_another_formula_is_no_scan(changed: dict[str, bool]) -> None:
    assert "mamba2_scan" not in scanned(**changed)


def test_a_rate_of_the_source_s_own_is_what_the_scan_reads() -> None:
    rates = scanned(rates=False)["mamba2_scan"].inputs["a"]
    build = GraphBuilder()
    x = build.parameter("x", BATCH, SEQUENCE, WIDTH)
    build.graph(build.call(x, lambda inner: scan(build, inner, rates=False)))
    assert {node.id: node.op for node in build.result.nodes}[rates] == "mul"


@pytest.mark.parametrize(
    ("changed", "is_one"),
    [
        ({}, True),
        ({"groups": 1}, False),
        ({"padding": KERNEL, "cut": slice(None, SEQUENCE)}, False),
        ({"cut": slice(KERNEL - 1, None)}, False),
    ],
)
def test_a_convolution_sees_its_own_channel_and_no_later_token(changed: dict[str, Any], is_one: bool) -> None:
    build = GraphBuilder()
    x = build.parameter("x", BATCH, SEQUENCE, PACKED)
    out = convolved(build, x, **changed)
    found = states(build, (out.silu() if is_one else out).transpose(1, 2))
    assert ("short_convolution" in found) is is_one
    if is_one:
        assert found["short_convolution"].options == {"activation": "silu"}
        assert found["short_convolution"].weight == "conv1d.weight"


def test_a_chunked_sequence_that_is_cut_again_is_as_long_as_it_was() -> None:
    length, chunk = Expr("symbol", ("sequence",)), Expr("field", ("chunk",))
    padding = Expr("mod", (Expr("sub", (chunk, Expr("mod", (length, chunk)))), chunk))
    assert counts_tokens(Expr("min", (length, Expr("add", (length, padding)))))
    assert not counts_tokens(Expr("add", (length, padding)))
    assert not counts_tokens(Scalar(3, Expr("min", (length, chunk))).expr)
