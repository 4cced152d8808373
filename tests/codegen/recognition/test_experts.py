from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from formulas import true_facts
from graph_builder import FLOAT32, MODEL, GraphBuilder, Tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from kunport_codegen.expression import field
from kunport_codegen.recognition import recognize

EXPERTS, TOP_K = field("num_experts", 4), field("num_experts_per_tok", 2)
CONFIG = {"num_experts": 4, "num_experts_per_tok": 2, "hidden_size": 6, "intermediate_size": 3}
TOKENS, HIDDEN, INTERMEDIATE = 10, field("hidden_size", 6), field("intermediate_size", 3)


@dataclass
class Spelling:
    """How a mixture of experts is written down; the last fields say where it is none."""

    scoring: str = "softmax"
    renormalize: bool = True
    score_first: bool = True
    upcast: bool = True
    cast_weights: bool = False
    spare_class: bool = True
    activation: str = "silu"
    swapped: bool = False
    miss: str = ""


def mixture(build: GraphBuilder, how: Spelling) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens, router logits and the weighted sum of the experts."""
    x = build.parameter("x", TOKENS, HIDDEN)
    gate_up = build.parameter("gate_up", EXPERTS, 2 * INTERMEDIATE.value, HIDDEN)
    down = build.parameter("down", EXPERTS, HIDDEN, INTERMEDIATE)
    logits = x.linear(build.parameter("router", EXPERTS, HIDDEN), None)
    weights, choice = routed(logits, how)
    if how.miss == "scaled weights":
        weights = weights * 2.5
    classes = EXPERTS.value + how.spare_class
    chosen = choice.one_hot(num_classes=classes).permute((2, 1, 0))
    visited = chosen.sum(dim=(-1, -2)).gt(1 if how.miss == "visits the popular" else 0).nonzero()

    def turn(row: Tensor, total: Tensor) -> tuple[Tensor, Tensor | None]:
        expert = row[0]
        skip = build.apply("eq", expert, EXPERTS) if how.spare_class else None
        if how.miss == "skips an expert":
            skip = build.apply("eq", expert, 0)
        places = chosen[expert].where()
        rows, columns = places.item(0), places.item(1)
        current = x[columns]
        several = current.linear(gate_up[expert]).chunk(2, dim=-1)
        first, second = (several.item(k) for k in ((1, 0) if how.swapped else (0, 1)))
        activated = getattr(first, how.activation)()
        hidden = activated if how.miss == "no gate" else activated * second
        if how.miss == "clamped":
            hidden = hidden.clamp(max=7.0)
        out = hidden.linear(down[expert])
        if how.miss == "expert bias":
            out = out + build.parameter("bias", EXPERTS, HIDDEN)[expert]
        out = (out * weights[columns, rows, None]).to(MODEL)
        if how.miss == "adds elsewhere":
            columns = columns * 0
        return total.index_add(0, columns, out), skip

    start = x.zeros_like()
    if how.miss == "starts from the tokens":
        start = x
    return x, logits, build.loop(visited, start, turn)


def routed(logits: Tensor, how: Spelling) -> tuple[Tensor, Tensor]:
    scores = logits.to(FLOAT32) if how.upcast else logits
    if how.score_first:
        scores = scores.softmax(dim=-1) if how.scoring == "softmax" else scores.sigmoid()
    if how.miss == "biased choice":
        scores = scores + logits.builder.parameter("correction", EXPERTS)
    best = scores.topk(TOP_K)
    weights = best.item(0)
    if not how.score_first:
        weights = weights.softmax(dim=-1)
    elif how.renormalize:
        total = weights.sum(dim=-1, keepdim=True)
        weights = weights / (total + 1e-20 if how.miss == "epsilon in the sum" else total)
    return weights.to(MODEL) if how.cast_weights else weights, best.item(1)


@settings(max_examples=40, deadline=None)
@given(
    st.builds(
        Spelling,
        scoring=st.sampled_from(("softmax", "sigmoid")),
        renormalize=st.booleans(),
        score_first=st.booleans(),
        upcast=st.booleans(),
        cast_weights=st.booleans(),
        spare_class=st.booleans(),
        activation=st.sampled_from(("silu", "gelu", "relu")),
    )
)
def test_each_spelling_is_the_mixture_that_its_numbers_say(how) -> None:
    build = GraphBuilder(CONFIG)
    x, logits, result = mixture(build, how)
    (found,) = true_facts(build.graph(result)).experts
    assert (found.input, found.logits, found.output) == (x.id, logits.id, result.id)
    assert (found.router_weight, found.gate_up, found.down) == ("router", "gate_up", "down")
    assert (found.experts, found.top_k, found.activation) == (EXPERTS, TOP_K, how.activation)
    assert found.scoring == (how.scoring if how.score_first else "softmax")
    assert found.renormalize == (how.renormalize or not how.score_first)
    assert logits.id not in found.nodes


MISSES = (
    *("scaled weights", "visits the popular", "skips an expert", "no gate", "clamped", "expert bias", "adds elsewhere"),
    *("starts from the tokens", "biased choice", "epsilon in the sum"),
)


@pytest.mark.parametrize("miss", MISSES)
def test_a_near_miss_is_no_mixture(miss) -> None:
    build = GraphBuilder(CONFIG)
    assert recognize(build.graph(mixture(build, Spelling(miss=miss))[-1])).experts == []


def test_the_gate_is_the_first_half() -> None:
    build = GraphBuilder(CONFIG)
    assert recognize(build.graph(mixture(build, Spelling(swapped=True))[-1])).experts == []


@pytest.mark.parametrize("change", [{"gate_up": (4, 8, 6)}, {"down": (4, 6, 4)}, {"gate_up": (4, 6)}])
def test_stacked_weights_must_agree(change) -> None:
    build = GraphBuilder(CONFIG)
    graph = build.graph(mixture(build, Spelling())[-1])
    for path, shape in change.items():
        graph.parameters[path] = replace(graph.parameters[path], shape=shape)
    assert recognize(graph).experts == []


def test_a_loop_that_carries_nothing_else_is_no_mixture() -> None:
    build = GraphBuilder()
    rows: Any = build.parameter("rows", 3, 2)
    total = build.loop(rows, build.parameter("x", 2), lambda row, total: (total + row, None))
    assert recognize(build.graph(total)).experts == []
