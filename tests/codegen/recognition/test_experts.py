from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from formulas import true_facts
from graph_builder import FLOAT32, MODEL, GraphBuilder, Tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from kunport_codegen.expression import field
from kunport_codegen.graph import DType
from kunport_codegen.recognition import recognize

EXPERTS, TOP_K, GROUPS = field("num_experts", 4), field("num_experts_per_tok", 2), field("n_group", 2)
SCALE, EPSILON, LIMIT = field("routed_scaling_factor", 2.5), field("norm_min", 1e-12), field("swiglu_limit", 1.5)
CONFIG = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "hidden_size": 6,
    "intermediate_size": 3,
    "n_group": 2,
    "routed_scaling_factor": 2.5,
    "norm_min": 1e-12,
    "swiglu_limit": 1.5,
}
TOKENS, HIDDEN, INTERMEDIATE = 10, field("hidden_size", 6), field("intermediate_size", 3)


@dataclass
class Spelling:
    """How a mixture of experts is written down; ``miss`` says where it is none."""

    scoring: str = "softmax"
    renormalize: bool = True
    score_first: bool = True
    upcast: bool = True
    cast_weights: bool = False
    spare_class: bool = True
    activation: str = "silu"
    correction: bool = False
    groups: str | None = None
    scale: bool = False
    epsilon: str | None = None
    weighted: str = "output"
    gated: bool = True
    packing: str = "concatenated"
    transposed: bool = False
    biases: bool = False
    limit: bool = False
    alone: bool = False
    float32_sum: bool = False
    miss: str = ""


def mixture(build: GraphBuilder, how: Spelling) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens, router logits and the weighted sum of the experts."""
    x = build.parameter("x", TOKENS, HIDDEN)
    width = INTERMEDIATE.value * (2 if how.gated else 1)
    gate_up = build.parameter("gate_up", EXPERTS, *((HIDDEN, width) if how.transposed else (width, HIDDEN)))
    down_sizes = (INTERMEDIATE, HIDDEN) if how.transposed else (HIDDEN, INTERMEDIATE)
    down = build.parameter("down", EXPERTS, *down_sizes)
    biases = [build.parameter(name, EXPERTS, size) for name, size in (("b_up", width), ("b_down", HIDDEN))]
    logits = x.linear(build.parameter("router", EXPERTS, HIDDEN), None)
    weights, choice = routed(logits, how)
    classes = EXPERTS.value + how.spare_class
    chosen = choice.one_hot(num_classes=classes).permute((2, 1, 0))
    visited = chosen.sum(dim=(-1, -2)).gt(1 if how.miss == "visits the popular" else 0).nonzero()

    visited = visited.squeeze(-1) if how.alone else visited

    def projected(x: Tensor, weight: Tensor, bias: Tensor, expert: Tensor) -> Tensor:
        if how.transposed:
            product = x @ weight[expert]
            return product + bias[expert] if how.biases else product
        return x.linear(weight[expert], bias[expert] if how.biases else None)

    def turn(row: Tensor, total: Tensor) -> tuple[Tensor, Tensor | None]:
        expert = row if how.alone else row[0]
        skip = build.apply("eq", expert, EXPERTS) if how.spare_class else None
        if how.miss == "skips an expert":
            skip = build.apply("eq", expert, 0)
        places = chosen[expert].where()
        rows, columns = places.item(0), places.item(1)
        share = weights[columns, rows, None]
        current = x[columns]
        if how.weighted == "input":
            current = (current * share).to(MODEL)
        hidden = activated(projected(current, gate_up, biases[0], expert), how)
        if how.miss == "clamped":
            hidden = hidden.clamp(max=7.0)
        if how.miss == "another expert's":
            expert = expert * 0
        out = projected(hidden, down, biases[1], expert)
        if how.miss == "one bias for all":
            out = out + build.parameter("bias", HIDDEN)
        if how.weighted == "output" and how.miss != "no weights":
            out = (out * share).to(FLOAT32 if how.float32_sum else MODEL)
        if how.miss == "adds elsewhere":
            columns = columns * 0
        return total.index_add(0, columns, out), skip

    start = x.zeros_like(dtype=FLOAT32) if how.float32_sum else x.zeros_like()
    if how.miss == "starts from the tokens":
        start = x
    total = build.loop(visited, start, turn)
    return x, logits, total.to(MODEL) if how.float32_sum else total


def activated(several: Tensor, how: Spelling) -> Tensor:
    if not how.gated:
        return getattr(several, how.activation)()
    if how.packing.startswith("concatenated"):
        halves = several.chunk(2, dim=-1)
        first, second = halves.item(0), halves.item(1)
    else:
        first, second = several[..., ::2], several[..., 1::2]
    gate, up = (second, first) if how.packing.endswith("up_first") else (first, second)
    if how.limit:
        gate, up = gate.clamp(max=LIMIT), up.clamp(min=-LIMIT.value, max=LIMIT) + 1
    if how.miss == "limits that differ":
        gate, up = gate.clamp(max=1.0), up.clamp(min=-0.5, max=0.5)
    gated = getattr(gate, how.activation)()
    return gated + up if how.miss == "a sum" else gated * up


def routed(logits: Tensor, how: Spelling) -> tuple[Tensor, Tensor]:
    scores = logits.to(FLOAT32) if how.upcast else logits
    if how.score_first:
        scores = scores.softmax(dim=-1) if how.scoring == "softmax" else scores.sigmoid()
    selection = scores
    if how.correction:
        selection = scores + logits.builder.parameter("correction", EXPERTS)
    if how.miss == "two corrections":
        selection = (scores + logits.builder.parameter("a", EXPERTS)) * logits.builder.parameter("b", EXPERTS)
    if how.groups is not None:
        selection = within_groups(selection, how)
    best = selection.topk(TOP_K)
    weights = scores.gather(1, best.item(1)) if how.correction or how.groups else best.item(0)
    if how.miss == "weights of the corrected":
        selection = scores + logits.builder.parameter("correction", EXPERTS)
        best = selection.topk(TOP_K)
        weights = best.item(0)
    if not how.score_first:
        weights = weights.softmax(dim=-1)
    elif how.renormalize:
        total = weights.sum(dim=-1, keepdim=True)
        if how.epsilon is not None:
            total = total + EPSILON if how.epsilon == "added" else total.clamp(min=EPSILON)
        weights = weights / total
    if how.scale:
        weights = weights * SCALE
    if how.miss == "squared weights":
        weights = weights * weights
    if how.miss == "weights of all experts":
        weights = scores
    if how.miss == "none is chosen":  # the number after the last expert's, where a weight is small
        return weights, best.item(1).masked_fill(weights.lt(0.5), EXPERTS)
    return weights.to(MODEL) if how.cast_weights else weights, best.item(1)


def within_groups(selection: Tensor, how: Spelling) -> Tensor:
    """Only the better of two groups of experts is left."""
    grouped = selection.reshape((-1, GROUPS, 2))
    good = grouped.max(dim=-1).item(0) if how.groups == "max" else grouped.topk(2).item(0).sum(dim=-1)
    kept = good.zeros_like().scatter(1, good.topk(1, dim=-1, sorted=False).item(1), 1)
    kept = kept.unsqueeze(-1).expand((-1, GROUPS, 2)).reshape((-1, EXPERTS))
    return selection.masked_fill(kept.to(DType("bool")).bitwise_not(), float("-inf"))


@settings(max_examples=60, deadline=None)
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
        correction=st.booleans(),
        groups=st.sampled_from((None, "max", "sum of top 2")),
        scale=st.booleans(),
        epsilon=st.sampled_from((None, "added", "least")),
        weighted=st.sampled_from(("output", "input")),
        gated=st.booleans(),
        packing=st.sampled_from(("concatenated", "concatenated_up_first", "interleaved", "interleaved_up_first")),
        transposed=st.booleans(),
        biases=st.booleans(),
        limit=st.booleans(),
        alone=st.booleans(),
        float32_sum=st.booleans(),
    )
)
def test_each_spelling_is_the_mixture_that_its_numbers_say(how) -> None:
    if not how.score_first:  # the chosen are scored alone, so nothing comes between scores and choice
        how = replace(how, correction=False, groups=None)
    build = GraphBuilder(CONFIG)
    x, logits, result = mixture(build, how)
    (found,) = true_facts(build.graph(result)).experts
    assert (found.input, found.logits, found.output) == (x.id, logits.id, result.id)
    assert (found.router_weight, found.gate_up, found.down) == ("router", "gate_up", "down")
    assert (found.experts, found.top_k, found.activation) == (EXPERTS, TOP_K, how.activation)
    assert found.scoring == (how.scoring if how.score_first else "softmax")
    assert found.renormalize == (how.renormalize or not how.score_first)
    assert found.correction_bias == ("correction" if how.correction else None)
    assert found.group_score == how.groups
    assert found.groups == (GROUPS if how.groups else None)
    assert found.top_groups == (1 if how.groups else None)
    assert found.scale == (SCALE if how.scale else 1.0)
    assert found.epsilon == (EPSILON if how.epsilon and how.renormalize and how.score_first else None)
    assert (found.weighted, found.gated, found.transposed) == (how.weighted, how.gated, how.transposed)
    assert found.packing == (how.packing if how.gated else "single")
    assert (found.gate_up_bias, found.down_bias) == (("b_up", "b_down") if how.biases else (None, None))
    assert (found.limit, found.up_offset) == ((LIMIT, 1.0) if how.limit and how.gated else (None, 0.0))
    assert logits.id not in found.nodes


MISSES = (
    *("visits the popular", "skips an expert", "clamped", "adds elsewhere", "starts from the tokens", "a sum"),
    *("no weights", "one bias for all", "another expert's", "limits that differ", "weights of all experts"),
)


@pytest.mark.parametrize("miss", MISSES)
def test_a_near_miss_is_no_mixture(miss) -> None:
    build = GraphBuilder(CONFIG)
    assert recognize(build.graph(mixture(build, Spelling(miss=miss))[-1])).experts == []


@pytest.mark.parametrize("miss", ["squared weights", "two corrections", "weights of the corrected", "none is chosen"])
def test_a_router_of_no_known_formula_is_known_by_what_it_makes(miss) -> None:
    build = GraphBuilder(CONFIG)
    _, logits, result = mixture(build, Spelling(miss=miss))
    (found,) = true_facts(build.graph(result)).experts
    assert (found.scoring, found.logits, found.router_weight) == (None, None, "")
    assert (found.experts, found.top_k, found.absent) == (EXPERTS, TOP_K, miss == "none is chosen")
    assert not {found.weights, found.choice, logits.id} & found.nodes


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
