from __future__ import annotations

import dataclasses

import pytest
from attending import CONFIG, SCALE, SOFTCAP, WINDOWS, Spelling, attention, plain_scores, repeat
from formulas import true_facts
from graph_builder import BATCH, FLOAT32, MODEL, SEQUENCE, GraphBuilder, Tensor
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kunport_codegen.expression import unwrap
from kunport_codegen.recognition import recognize

SPELLINGS = st.builds(
    Spelling,
    heads=st.sampled_from((2, 4)),
    groups=st.sampled_from((1, 2)),
    head_dim=st.integers(1, 4),
    value_dim=st.integers(1, 4),
    scale=st.sampled_from(("scores", "division", "query", "key", "none")),
    softcap=st.booleans(),
    mask=st.sampled_from((None, *WINDOWS)),
    mask_first=st.booleans(),
    sinks=st.booleans(),
    without_maximum=st.booleans(),
    repeat=st.sampled_from(("expand", "interleave")),
    upcast=st.sampled_from(("softmax", "scores", "none")),
    output=st.sampled_from(("transpose", "permute", "heads first")),
)


@settings(max_examples=100, deadline=None)
@given(SPELLINGS)
def test_each_spelling_is_the_attention_that_its_numbers_say(spelling) -> None:
    assume(not (spelling.mask_first and spelling.softcap))
    build = GraphBuilder(CONFIG)
    query, key, value, combined = attention(build, spelling)
    (found,) = true_facts(build.graph(combined)).attentions
    assert (found.query, found.key, found.value) == (query.id, key.id, value.id)
    assert [unwrap(each) for each in (found.heads, found.kv_heads)] == [
        spelling.heads,
        spelling.heads // spelling.groups,
    ]
    assert (found.head_dim, found.value_dim) == (spelling.head_dim, spelling.value_dim)
    scales = {"none": 1.0, "division": 1 / 3}
    assert unwrap(found.scale) == pytest.approx(scales.get(spelling.scale, SCALE.value))
    assert found.softcap == (SOFTCAP if spelling.softcap else None)
    assert (found.mask, found.window) == (spelling.mask or "bidirectional", WINDOWS.get(spelling.mask or ""))
    assert (found.sinks, found.upcast) == ("sinks" if spelling.sinks else None, spelling.upcast != "none")
    assert found.heads_first == (spelling.output == "heads first")


def test_a_scale_keeps_its_expression() -> None:
    build = GraphBuilder(CONFIG)
    *_, combined = attention(build, Spelling(scale="query"))
    (found,) = true_facts(build.graph(combined)).attentions
    assert str(found.scale.expr) == "config.scale"


def test_scales_multiply() -> None:
    build = GraphBuilder(CONFIG)
    query, key = (build.parameter(name, BATCH, 2, SEQUENCE, 4) for name in "qk")
    scores = (query * SCALE) @ (key / 2.0).transpose(-1, -2) * SCALE
    combined = scores.softmax(dim=-1) @ build.parameter("v", BATCH, 2, SEQUENCE, 4)
    (found,) = true_facts(build.graph(combined)).attentions
    assert unwrap(found.scale) == pytest.approx(SCALE.value**2 / 2)


def test_one_key_value_head_may_serve_all_by_broadcasting() -> None:
    build = GraphBuilder()
    query = build.parameter("q", BATCH, 4, SEQUENCE, 4)
    key, value = (build.parameter(name, BATCH, 1, SEQUENCE, 4) for name in "kv")
    combined = (query @ key.transpose(-1, -2)).softmax(dim=-1) @ value
    (found,) = true_facts(build.graph(combined)).attentions
    assert (found.heads, found.kv_heads) == (4, 1)


def test_a_cast_product_returns_to_the_dtype_of_the_values() -> None:
    build = GraphBuilder()
    query, key, value = (build.parameter(name, BATCH, 2, SEQUENCE, 4) for name in "qkv")
    scores = query.to(FLOAT32) @ key.to(FLOAT32).transpose(-1, -2)
    combined = (scores.softmax(dim=-1) @ value.to(FLOAT32)).to(MODEL)
    (found,) = true_facts(build.graph(combined)).attentions
    assert (found.query, found.value, found.output) == (query.id, value.id, combined.id)


SCORES_MISSES = {
    "a bias that is scaled with the scores": lambda b, s: (s + b.parameter("bias", BATCH, 2, SEQUENCE, SEQUENCE)) * 2.0,
    "two biases": lambda b, s: s + b.parameter("a", 2, 1, SEQUENCE) + b.parameter("b", 2, 1, SEQUENCE),
    "lifted to a number": lambda b, s: b.apply("maximum", s, b.apply("full", (), -5.0, dtype=FLOAT32)),
    "a learned scale": lambda b, s: s * b.parameter("temperature", 2, 1, 1),
    "two masks": lambda b, s: s + b.mask("causal") + b.mask("chunked", 2),
    "a mask inside the softcap": lambda b, s: ((s + b.mask("causal")) / 2.0).tanh() * 2.0,
    "a mask that a factor turns round": lambda b, s: (s + b.mask("causal")) * -1.0,
    "a subtracted mask": lambda b, s: s - b.mask("causal"),
    "a softcap with two caps": lambda b, s: (s / 2.0).tanh() * 3.0,
    "a softcap without a factor": lambda b, s: (s / 2.0).tanh(),
    "an inverted softcap": lambda b, s: (2.0 / s).tanh() * 2.0,
    "scaled after the softcap": lambda b, s: (s / 2.0).tanh() * 2.0 * 0.5,
    "two softcaps": lambda b, s: ((((s / 2.0).tanh() * 2.0) / 3.0).tanh()) * 3.0,
    "a constant over the scores": lambda b, s: 2.0 / s,
    "a shift": lambda b, s: s + 1.0,
    "the mean removed": lambda b, s: s - s.mean(dim=-1, keepdim=True),
    "the maximum of another dimension removed": lambda b, s: s - s.amax(dim=1, keepdim=True),
    "clamped": lambda b, s: s.clamp(max=5.0),
    "turned": lambda b, s: s.transpose(2, 3),
    "fewer keys": lambda b, s: s[..., :3],
    "filled with a visible number": lambda b, s: s.masked_fill(
        b.arange(SEQUENCE)[None, :].gt(b.arange(SEQUENCE)[:, None]), -1.0
    ),
    "filled by a learned mask": lambda b, s: s.masked_fill(b.parameter("m", SEQUENCE, SEQUENCE).gt(0.0), -1e9),
    "sinks of one number for all": lambda b, s: b.cat(s, b.parameter("sinks", 1).expand((BATCH, 2, SEQUENCE, 1))),
    "a sink for each query": lambda b, s: b.cat(
        s, b.parameter("sinks", SEQUENCE).reshape((1, 1, -1, 1)).expand((BATCH, 2, SEQUENCE, 1))
    ),
}


@pytest.mark.parametrize("name", SCORES_MISSES)
def test_anything_else_on_the_scores_is_no_attention(name) -> None:
    build = GraphBuilder()
    scores, value = plain_scores(build)
    changed = SCORES_MISSES[name](build, scores)
    weights = changed.softmax(dim=-1)
    weights = weights[..., :-1] if "sink" in name else weights
    values = value[:, :, :3] if name == "fewer keys" else value
    assert recognize(build.graph(weights @ values)).attentions == []


WEIGHTS_MISSES = {
    "softmax over queries": lambda s: s.softmax(dim=-2),
    "weights scaled": lambda s: s.softmax(dim=-1) * 2.0,
    "weights squared": lambda s: s.softmax(dim=-1).pow(2),
    "weights normalised again": lambda s: s.softmax(dim=-1) / s.softmax(dim=-1).sum(dim=-1, keepdim=True),
    "weights turned": lambda s: s.softmax(dim=-1).transpose(2, 3),
    "a sigmoid": lambda s: s.sigmoid(),
}


@pytest.mark.parametrize("name", WEIGHTS_MISSES)
def test_anything_else_on_the_weights_is_no_attention(name) -> None:
    build = GraphBuilder()
    scores, value = plain_scores(build)
    assert recognize(build.graph(WEIGHTS_MISSES[name](scores) @ value)).attentions == []


def test_sinks_must_be_dropped() -> None:
    build = GraphBuilder()
    scores, value = plain_scores(build)
    sinks = build.parameter("sinks", 2).reshape((1, -1, 1, 1)).expand((BATCH, 2, SEQUENCE, 1))
    weights = build.cat(scores, sinks).softmax(dim=-1)
    assert recognize(build.graph(weights[..., 1:] @ value)).attentions == []


def test_no_drop_without_sinks() -> None:
    build = GraphBuilder()
    scores, value = plain_scores(build)
    assert recognize(build.graph(scores.softmax(dim=-1)[..., :-1] @ value[:, :, :-1])).attentions == []


def test_scores_that_others_read_are_no_attention() -> None:
    build = GraphBuilder()
    scores, value = plain_scores(build)
    weights = scores.softmax(dim=-1)
    assert recognize(build.graph(weights @ value, weights)).attentions == []


def test_scores_that_a_dead_node_reads_are_one() -> None:
    build = GraphBuilder()
    scores, value = plain_scores(build)
    scores.exp()
    assert len(recognize(build.graph(scores.softmax(dim=-1) @ value)).attentions) == 1


def test_the_key_must_be_transposed() -> None:
    build = GraphBuilder()
    query, value = (build.parameter(name, BATCH, 2, SEQUENCE, SEQUENCE) for name in "qv")
    key = build.parameter("k", BATCH, 2, SEQUENCE, SEQUENCE)
    assert recognize(build.graph((query @ key).softmax(dim=-1) @ value)).attentions == []


def test_repeated_in_turn_is_another_grouping() -> None:
    build = GraphBuilder()
    query = build.parameter("q", BATCH, 4, SEQUENCE, 4)
    key, value = (build.parameter(name, BATCH, 2, SEQUENCE, 4) for name in "kv")

    def tiled(x: Tensor) -> Tensor:
        return x[:, None].expand((BATCH, 2, 2, SEQUENCE, 4)).reshape((BATCH, 4, SEQUENCE, 4))

    tiled_key, tiled_value = tiled(key), tiled(value)
    combined = (query @ tiled_key.transpose(2, 3)).softmax(dim=-1) @ tiled_value
    (found,) = true_facts(build.graph(combined)).attentions
    assert (found.key, found.value) == (tiled_key.id, tiled_value.id)


def test_key_and_value_must_be_repeated_alike() -> None:
    build = GraphBuilder()
    query = build.parameter("q", BATCH, 4, SEQUENCE, 4)
    key, value = build.parameter("k", BATCH, 2, SEQUENCE, 4), build.parameter("v", BATCH, 4, SEQUENCE, 4)
    combined = (query @ repeat(key, 2, "expand").transpose(2, 3)).softmax(dim=-1) @ value
    assert recognize(build.graph(combined)).attentions == []


@pytest.mark.parametrize("dim", [0, 2, 3])
def test_repeating_another_dimension_is_part_of_the_key(dim) -> None:
    build = GraphBuilder()
    sizes = [unwrap(BATCH), 2, unwrap(SEQUENCE), 4]
    query, value = build.parameter("q", *sizes), build.parameter("v", *sizes)
    halved = [size // 2 if place == dim else size for place, size in enumerate(sizes)]
    if sizes[dim] % 2:
        return
    key = build.parameter("k", *halved).repeat_interleave(2, dim=dim)
    combined = (query @ key.transpose(2, 3)).softmax(dim=-1) @ value
    (found,) = true_facts(build.graph(combined)).attentions
    assert found.key == key.id


def test_every_choice_is_drawn() -> None:
    """The strategy above names every field, so that a new choice cannot be forgotten."""
    drawn = {"heads", "groups", "head_dim", "value_dim", "scale", "softcap", "mask", "mask_first", "sinks"}
    drawn |= {"without_maximum", "repeat", "upcast", "output"}
    assert {each.name for each in dataclasses.fields(Spelling)} == drawn


def test_heads_may_be_merged_with_the_batch() -> None:
    build = GraphBuilder()
    query, key, value = (build.parameter(name, BATCH, 2, SEQUENCE, 4) for name in "qkv")
    merged = [each.reshape((4, SEQUENCE, 4)) for each in (query, key, value)]
    bias = build.parameter("bias", 4, 1, SEQUENCE)
    scores = build.apply("baddbmm", bias, merged[0], merged[1].transpose(1, 2), beta=1.0, alpha=0.3)
    weights = (scores.reshape((BATCH, 2, SEQUENCE, SEQUENCE)) + build.mask("causal")).softmax(dim=-1)
    combined = weights.reshape((4, SEQUENCE, SEQUENCE)).bmm(merged[2]).reshape((BATCH, 2, SEQUENCE, 4))
    result = combined.transpose(1, 2)
    (found,) = true_facts(build.graph(result)).attentions
    assert (found.query, found.key, found.value, found.output) == (query.id, key.id, value.id, result.id)
    assert (found.scale, found.bias, found.mask, found.heads) == (0.3, bias.id, "causal", 2)


def test_a_product_on_zeros_has_no_bias() -> None:
    build = GraphBuilder()
    query, key, value = (build.parameter(name, BATCH, 2, SEQUENCE, 4) for name in "qkv")
    zeros = build.apply("zeros", (4, SEQUENCE, SEQUENCE), dtype=MODEL)
    merged = query.reshape((4, SEQUENCE, 4)), key.reshape((4, SEQUENCE, 4)).transpose(1, 2)
    scores = build.apply("baddbmm", zeros, *merged, beta=1.0, alpha=0.3).reshape((BATCH, 2, SEQUENCE, SEQUENCE))
    scores = build.apply("maximum", scores + build.mask("causal"), build.apply("full", (), -3.4e38, dtype=FLOAT32))
    (found,) = true_facts(build.graph(scores.softmax(dim=-1) @ value)).attentions
    assert (found.bias, found.scale, found.mask) == (None, 0.3, "causal")


def test_sinks_as_a_share_of_the_sum() -> None:
    build = GraphBuilder()
    scores, value = plain_scores(build)
    masked = scores * 0.5 + build.mask("causal")
    share = (masked.logsumexp(dim=-1) - build.parameter("sinks", 2).reshape((1, -1, 1))).to(FLOAT32).sigmoid()
    weights = masked.softmax(dim=-1, dtype=FLOAT32).to(MODEL)
    result = (weights @ value * share.unsqueeze(-1).to(MODEL)).transpose(1, 2)
    (found,) = true_facts(build.graph(result)).attentions
    assert (found.sinks, found.output, found.scale) == ("sinks", result.id, 0.5)


def test_a_key_split_and_transposed_by_one_permutation() -> None:
    build = GraphBuilder()
    query, value = (build.parameter(name, BATCH, 2, SEQUENCE, 4) for name in "qv")
    key = build.parameter("k", BATCH, SEQUENCE, 2, 4).permute((0, 2, 3, 1))
    (found,) = true_facts(build.graph((query @ key).softmax(dim=-1) @ value)).attentions
    assert (found.key, found.key_transposed, found.head_dim) == (key.id, True, 4)
